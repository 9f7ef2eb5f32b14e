// Sentences → tokens → sentences: subwords by byte-pair encoding, or whole words.

export const PADDING = 0, BOS = 1, EOS = 2, UNKNOWN = 3;
const SPECIAL = ["<pad>", "<bos>", "<eos>", "<unk>"];
const BLANK = "▁";

export class Subwords {
  // `pairs` are tokens that are merged, first learnt first: each pair makes the next token.
  constructor(letters, pairs, cased = false) {
    const words = (this.words = [...SPECIAL, ...letters]);
    this.cased = cased;
    this.most = words.length + pairs.length / 2;
    this.merges = new Map(); // left · most + right → the token they make: the smaller, the earlier learnt
    for (let i = 0; i < pairs.length; i += 2) {
      this.merges.set(pairs[i] * this.most + pairs[i + 1], words.length);
      words.push(words[pairs[i]] + words[pairs[i + 1]]);
    }
    this.numbers = new Map(words.map((word, number) => [word, number]));
  }

  encode(sentence) {
    return split(normalize(sentence, this.cased)).flatMap((piece) => this.merge(piece));
  }

  // Joins the two neighbours that were merged earliest in training, until none is left.
  merge(piece) {
    const tokens = Array.from(piece, (letter) => this.numbers.get(letter) ?? UNKNOWN);
    for (;;) {
      let best = Infinity, at = -1;
      for (let i = 0; i + 1 < tokens.length; i += 1) {
        const found = this.merges.get(tokens[i] * this.most + tokens[i + 1]);
        if (found < best) [best, at] = [found, i];
      }
      if (at < 0) return tokens;
      tokens.splice(at, 2, best);
    }
  }

  // The text up to the first <eos>, without special tokens.
  decode(tokens) {
    const words = untilEnd(tokens).filter((token) => token > UNKNOWN).map((token) => this.words[token]);
    return words.map((word, i) => word.replaceAll(BLANK, i ? " " : "")).join("");
  }
}

export class Words {
  constructor(words) {
    this.words = words;
    this.numbers = new Map(words.map((word, number) => [word, number]).slice(3));
  }

  encode(sentence) {
    return sentence.split(SPACES).filter(Boolean).map((word) => {
      const token = this.numbers.get(word);
      if (token === undefined) throw new Error(`The model has not learnt the word “${word}”.`);
      return token;
    });
  }

  decode(tokens) {
    return untilEnd(tokens).filter((token) => token > EOS).map((token) => this.words[token]).join(" ");
  }
}

// Lower case by the letter: a whole string would turn Σ at its end into ς.
function normalize(sentence, cased) {
  const letters = Array.from(sentence.normalize("NFKC"), (letter) => (cased ? letter : letter.toLowerCase()));
  return letters.join("").replace(/\p{White_Space}+/gu, " ").replace(/^ | $/g, "");
}

// A blank begins a piece, and each punctuation mark is one by itself.
function split(text) {
  if (!text) return [];
  const marked = text.replaceAll(" ", BLANK);
  const whole = marked.startsWith(BLANK) ? marked : BLANK + marked;
  const pieces = whole.match(/▁[^▁]*|[^▁]+/g);
  return pieces.flatMap((piece) => piece.match(/[!-/:-@[-`{-~\p{P}]|[^!-/:-@[-`{-~\p{P}]+/gu));
}

const SPACES = /\p{White_Space}+/u;

function untilEnd(tokens) {
  const end = tokens.indexOf(EOS);
  return end < 0 ? tokens : tokens.slice(0, end);
}

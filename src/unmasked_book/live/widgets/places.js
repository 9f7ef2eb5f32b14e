// The places of the figure: the boxes of each half from top to bottom, and what can be switched off.

export const NAMES = "@NAMES@"; // part → what it is called

const BLEU = "@BLEU@"; // model → part → BLEU of eighty captions without it; the whole model's has no name

// part → what to notice without it
export const PARTS = {
  encoderPositions:
    "The encoder reads a bag of tokens. Who does what to whom? Shuffle the source (in the box “tokens”) and compare.",
  decoderPositions:
    "Short captions hardly change: the causal mask tells the decoder how far it is. Try a long sentence.",
  cross:
    "The decoder never sees the source. It dreams up a caption, the same one for every sentence.",
  encoderSelf:
    "Every source token is read alone, so what belongs together can come apart.",
  decoderSelf:
    "The decoder forgets what it has said, except for its last token. It stops early or repeats itself.",
  scale:
    "All scores grow by a factor of √dₖ, so every head looks harder at fewer tokens. It stutters a little.",
  residuals:
    "A layer now replaces its input instead of adding to it. Nothing is left of the sentence.",
  norms:
    "The vectors grow from layer to layer, and every later matrix sees values unlike any it was trained on.",
  feedForward:
    "Some of the right words survive, but hardly any grammar, and often no way to stop.",
};

// What was measured with this part alone switched off, of a model that comes with the book.
export function measured(model, part) {
  const bleu = BLEU[model];
  return bleu ? ` Measured without this part alone, on eighty captions: BLEU ${bleu[""]} → ${bleu[part]}.` : "";
}

// [place, title, the sublayer's part, the name of its residual in a trace]
const SUBLAYERS = {
  encoder: [
    ["self", "self-attention", "encoderSelf", "attention"],
    ["feed-forward", "feed-forward", "feedForward", "feed_forward"],
  ],
  decoder: [
    ["self", "self-attention", "decoderSelf", "self"],
    ["cross", "cross-attention", "cross", "cross"],
    ["feed-forward", "feed-forward", "feedForward", "feed_forward"],
  ],
};

// The boxes of a half: { place, half, kind, title, part, layered, … } and the names of the rows that its
// panel shows: `input`, `added` and `name`, what comes out. `norm` is "pre" or "post", and `final` says
// whether there is one at the end.
export function boxesOf(half, norm, final = true) {
  const box = (kind, title, more) => ({ place: `${half}.${kind}`, half, kind, title, ...more });
  const last = half === "encoder" ? "memory" : "logits";
  return [
    box("tokens", "tokens"),
    box("embeddings", "embeddings", { name: "rows" }),
    box("positions", "+ positions", { name: "input", part: `${half}Positions` }),
    ...SUBLAYERS[half].flatMap((sublayer, number) => layerBoxes(half, norm, sublayer, number, box)),
    box(last, final ? `norm → ${last}` : last, {
      place: last, part: final ? "norms" : null, name: last === "memory" ? last : "last",
    }),
  ];
}

function layerBoxes(half, norm, [place, title, part, name], number, box) {
  const layered = true, before = `${name}.before`, sum = `${name}.sum`, normed = `${name}_norm`;
  const kind = place === "feed-forward" ? place : "attention", prefix = number ? `${half}.${place}-` : `${half}.`;
  const output = kind === "attention" ? `${place}.output` : "feed_forward.contract";
  const normBox = box("norm", "norm", {
    layered, place: `${prefix}norm`, input: norm === "pre" ? before : sum, name: normed, part: "norms",
  });
  const sub = box(kind, title, { layered, name: place, part, place: `${half}.${place}` });
  const add = box("add", "add (residual)", {
    layered, place: `${prefix}add`, input: before, added: output, name: sum, part: "residuals",
  });
  return norm === "pre" ? [normBox, sub, add] : [sub, add, normBox];
}

// Where a token of a half is looked at: the place that is open, if it is of that half.
export function placeIn(half, open) {
  if (open.startsWith(half) || open === (half === "encoder" ? "memory" : "logits")) return open;
  return half === "encoder" ? "encoder.tokens" : "decoder.cross";
}

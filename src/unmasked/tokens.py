"""Sentences → tokens: whole words, for a language whose words are all known, or subwords.

Byte-pair encoding (Sennrich et al. 2016) begins with letters and merges the most frequent pair of
neighbours again and again, so that nothing is out of vocabulary. One vocabulary serves both
languages. The work is done by Hugging Face's `tokenizers`; text is lower-cased unless one asks
otherwise, and a blank is kept as ▁ at the head of a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor, nn

from .errors import RefusedError, invalid, require_choice, require_text, require_whole

PADDING = 0  # fills the short rows of a batch
BOS = 1  # begins a target sentence
EOS = 2  # ends it

SPECIAL = {PADDING: "<pad>", BOS: "<bos>", EOS: "<eos>"}


class Words:
    """A number for each word: the special tokens first, then the words of a text, sorted."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        expected = [SPECIAL[number] for number in range(len(SPECIAL))]
        texts = all(isinstance(word, str) for word in self.words)
        self.numbers = {word: n for n, word in enumerate(self.words)} if texts else {}
        if self.words[: len(SPECIAL)] != expected or len(self.numbers) != len(self.words):
            fix = "make the vocabulary with Words.of(sentences)"
            got = " ".join(map(str, self.words[: len(SPECIAL)])) or "none"
            raise invalid("words", f"{' '.join(expected)}, then each word once", got, fix)
        for name in expected:  # written in a text it is a word like others, and unknown
            del self.numbers[name]

    @classmethod
    def of(cls, sentences: Iterable[str]) -> Words:
        """All words of these sentences: the training set's, and of nothing else."""
        words = {word for sentence in sentences for word in sentence.split()}
        return cls([*SPECIAL.values(), *sorted(words - set(SPECIAL.values()))])

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, sentence: str) -> list[int]:
        numbers = []
        for word in sentence.split():
            if word not in self.numbers:
                expected = f"one of the {len(self)} words that the model has learnt"
                fix = "write in lower case, with blanks around , and ?"
                raise invalid("sentence", expected, repr(word), fix)
            numbers.append(self.numbers[word])
        return numbers

    def knows(self, sentence: str) -> bool:
        return all(word in self.numbers for word in sentence.split())

    def decode(self, numbers: Sequence[int]) -> str:
        """The words up to the first <eos>, without special tokens."""
        ended = until_end(numbers)
        require_numbers(ended, len(self))
        return " ".join(self.words[number] for number in ended if number not in SPECIAL)


UNKNOWN = 3  # a letter that the training text does not have
SPECIAL_PIECES = {PADDING: "<pad>", BOS: "<bos>", EOS: "<eos>", UNKNOWN: "<unk>"}
AGAIN = "fetch or make the file again"


class Subwords:
    """A number for each piece: the special tokens first, then letters, then what was merged."""

    def __init__(
        self, numbers: Mapping[str, int], merges: Sequence[tuple[str, str]], lowercase: bool = True
    ) -> None:
        """From the number of each piece, and the pairs that are merged, in their order."""
        pieces, special = sorted(numbers, key=numbers.__getitem__), list(SPECIAL_PIECES.values())
        if pieces[: len(special)] != special:
            fix = "make the vocabulary with Subwords.of(sentences, size)"
            raise invalid("tokenizer", f"{' '.join(special)} first", pieces[: len(special)], fix)
        if [numbers[piece] for piece in pieces] != [*range(len(pieces))]:
            raise invalid("tokenizer", "pieces numbered from 0", "other numbers", AGAIN)
        self.lowercase = lowercase
        self.tokenizer = blank(lowercase)
        self.tokenizer.model = models.BPE(dict(numbers), list(merges), unk_token=special[UNKNOWN])
        self.tokenizer.add_special_tokens(special)
        self.tokenizer.encode_special_tokens = True  # "<eos>" in a text is a text

    @classmethod
    def of(cls, sentences: Iterable[str], size: int, *, lowercase: bool = True) -> Subwords:
        """Learnt from these sentences: the training set's, and of nothing else."""
        require_whole("size", size, 2 * len(SPECIAL_PIECES))
        require_choice("lowercase", lowercase, (True, False))
        made, special = blank(lowercase), list(SPECIAL_PIECES.values())
        made.add_special_tokens(special)  # written in a text, no piece is learnt from them
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False)
        made.train_from_iterator(checked(sentences), trainer)
        return cls.from_json(made.to_str())

    @classmethod
    def from_json(cls, text: str) -> Subwords:
        """What `to_json` wrote: its pieces, its merges, and whether upper case stays. What else
        becomes of a text is always ours: steps of the file's own, some of which never end or abort
        Python, are not run.
        """
        try:
            kept = json.loads(text)
            model, steps = kept["model"], (kept.get("normalizer") or {}).get("normalizers", [])
            cased = [step["type"] for step in steps] == CASED
            merges = [(one, other) for one, other in model["merges"]]
            return cls(model["vocab"], merges, lowercase=not cased)
        except Exception as error:  # the library has no other type
            if isinstance(error, ValueError) and str(error).startswith("tokenizer: "):
                raise
            expected = "a tokenizer.json as Subwords.of makes it"
            raise invalid("tokenizer", expected, error, AGAIN) from None

    def to_json(self) -> str:
        return self.tokenizer.to_str()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy reads as this one does: the library would forget that "<eos>" is a text."""
        return type(self).from_json, (self.to_json(),)

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

    @property
    def words(self) -> list[str]:
        """Each piece, in the order of its number."""
        return [self.tokenizer.id_to_token(number) or "" for number in range(len(self))]

    def encode(self, sentence: str) -> list[int]:
        return self.tokenizer.encode(sentence).ids

    def knows(self, sentence: str) -> bool:
        """Whether all its letters were in the training text."""
        return UNKNOWN not in self.encode(sentence)

    def pieces(self, sentence: str) -> list[str]:
        """The sentence's tokens, as they are read."""
        return self.tokenizer.encode(sentence).tokens

    def decode(self, numbers: Sequence[int]) -> str:
        """The text up to the first <eos>, without special tokens."""
        ended = until_end(numbers)
        require_numbers(ended, len(self))
        return self.tokenizer.decode(ended)

    @property
    def merges(self) -> list[tuple[str, str]]:
        """What was merged, in the order in which it was learnt."""
        return [tuple(pair) for pair in json.loads(self.to_json())["model"]["merges"]]


class Pieces:
    """OPUS-MT's: a sentencepiece model cuts one language; the numbers are those of both together.

    A language that is asked for at the head of a sentence, as in ">>fra<< Hello", is one token.
    """

    lowercase = False

    def __init__(self, model: bytes, words: Sequence[str]) -> None:
        """From the file that sentencepiece wrote, and all pieces, the special tokens first."""
        try:
            from sentencepiece import SentencePieceProcessor
        except ImportError:
            fix = 'install it with pip install "unmasked[hub]"'
            missing = invalid("pieces", "the package sentencepiece", "none", fix)
            raise RefusedError(missing) from None
        self.model, self.words = model, list(words)
        special = list(SPECIAL_PIECES.values())
        if self.words[: len(special)] != special or not all(isinstance(w, str) for w in self.words):
            raise invalid("words", f"{' '.join(special)} first", self.words[: len(special)], AGAIN)
        self.numbers = {word: n for n, word in enumerate(self.words) if n not in SPECIAL_PIECES}
        try:
            self.processor = SentencePieceProcessor(model_proto=model)
            self.processor.encode("a")  # an empty model fails here
        except RuntimeError as error:
            raise invalid("pieces", "a model of sentencepiece", error, AGAIN) from None

    def __len__(self) -> int:
        return len(self.words)

    def pieces(self, sentence: str) -> list[str]:
        """The sentence's tokens, as they are read."""
        asked, closed, rest = sentence.partition("<<")
        language = asked.startswith(">>") and bool(closed)
        text = rest if language else sentence
        return [asked + closed] * language + self.processor.encode(text, out_type=str)

    def encode(self, sentence: str) -> list[int]:
        return [self.numbers.get(piece, UNKNOWN) for piece in self.pieces(sentence)]

    def knows(self, sentence: str) -> bool:
        return UNKNOWN not in self.encode(sentence)

    def decode(self, numbers: Sequence[int]) -> str:
        """The text up to the first <eos>, without special tokens."""
        ended = until_end(numbers)
        require_numbers(ended, len(self))
        text = "".join(self.words[number] for number in ended if number not in SPECIAL_PIECES)
        return text.replace("▁", " ").strip()


CASED = ["NFKC", "Replace", "Strip"]  # the steps of a file that keeps upper case


def blank(lowercase: bool = True) -> Tokenizer:
    """What becomes of a text before it is cut into pieces, and afterwards; no pieces yet."""
    made = Tokenizer(models.BPE(unk_token=SPECIAL_PIECES[UNKNOWN]))
    lower = [normalizers.Lowercase()] if lowercase else []
    blanks = normalizers.Replace(Regex(r"\s+"), " ")
    made.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), *lower, blanks, normalizers.Strip()]
    )
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation("isolated")]
    )
    made.decoder = decoders.Metaspace()
    return made


def checked(sentences: Iterable[str]) -> Iterator[str]:
    for number, sentence in enumerate(sentences, 1):
        require_text(f"sentence {number}", sentence)
        yield sentence


def require_numbers(numbers: Sequence[int], size: int) -> None:
    if wrong := [number for number in numbers if not 0 <= number < size]:
        fix = "take the vocabulary that the model was trained with"
        raise invalid("numbers", f"tokens from 0 to {size - 1}", wrong[0], fix)


def until_end(tokens: Sequence[int]) -> list[int]:
    """What comes before the first EOS."""
    row = list(tokens)
    return row[: row.index(EOS)] if EOS in row else row


Vocabulary = Words | Subwords | Pieces


def same_words(source: Vocabulary, target: Vocabulary) -> bool:
    """Whether a token means the same on both sides."""
    return source is target or source.words == target.words


def pad(sentences: Sequence[Sequence[int]]) -> Tensor:
    """Token lists → one tensor, the short ones filled up with padding: [B, longest]."""
    rows = [torch.as_tensor(sentence) for sentence in sentences]
    if not rows or any(len(row) == 0 for row in rows):
        got = "an empty one" if rows else "none"
        raise invalid("sentences", "sentences of at least one token", got, "leave empty ones out")
    if any(row.dtype.is_floating_point for row in rows):
        fix = "token numbers index a table"
        raise invalid("sentences", "whole numbers", "fractions", fix)
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING).long()

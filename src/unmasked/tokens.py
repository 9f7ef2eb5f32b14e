"""Turns sentences into token IDs and back: by whole words, or by subwords.

Byte-pair encoding (Sennrich et al. 2016) begins with letters and merges the most frequent pair of
neighbours again and again, so that every word can be written. One vocabulary serves both
languages. Hugging Face's `tokenizers` does the work; text is lower-cased unless one asks
otherwise, and ▁ stands for the blank before a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor, nn

from .errors import RefusedError, invalid, require_choice, require_type

PADDING = 0  # fills the short rows of a batch
BOS = 1  # begins a target sentence
EOS = 2  # ends it
UNKNOWN = 3  # stands for a letter that the training text does not have

SPECIAL = {PADDING: "<pad>", BOS: "<bos>", EOS: "<eos>"}
SPECIAL_PIECES = {**SPECIAL, UNKNOWN: "<unk>"}
AGAIN = "fetch or make the file again"


class Vocabulary(Protocol):
    """A vocabulary turns a sentence into token IDs, and token IDs into a sentence."""

    words: list[str]  # the text of each token, in the order of the IDs
    lowercase: bool  # whether scores take upper and lower case as the same

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, sentence: str) -> list[int]:
        """Returns the token IDs of a sentence, without BOS and EOS."""

    def decode(self, numbers: Sequence[int]) -> str:
        """Returns the text of the token IDs before the first EOS, without special tokens."""

    def knows(self, sentence: str) -> bool:
        """Returns True if the vocabulary has tokens for everything in the sentence."""
        return UNKNOWN not in self.encode(sentence)


def same_words(source: Vocabulary, target: Vocabulary) -> bool:
    """Returns True if each token ID means the same in both vocabularies."""
    return source is target or source.words == target.words


# --- Whole words ------------------------------------------------------------------------------


class Words(Vocabulary):
    """This vocabulary gives each word an ID: first the special tokens, then the words, sorted."""

    lowercase = True

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        require_words(self.words, SPECIAL)
        # In a sentence, the name of a special token is an unknown word.
        self.numbers = {word: n for n, word in enumerate(self.words) if n not in SPECIAL}

    @classmethod
    def of(cls, sentences: Iterable[str]) -> Words:
        """Returns a vocabulary of the sentences' words; take those of the training set only."""
        words = {word for sentence in texts_of(sentences) for word in sentence.split()}
        return cls([*SPECIAL.values(), *sorted(words.difference(SPECIAL.values()))])

    def encode(self, sentence: str) -> list[int]:
        words = sentence.split()
        for word in words:
            if word not in self.numbers:
                expected = f"one of the {len(self)} words that the model has learnt"
                fix = "write in lower case, with blanks around , and ?"
                raise invalid("sentence", expected, repr(word), fix)
        return [self.numbers[word] for word in words]

    def decode(self, numbers: Sequence[int]) -> str:
        ended = before_end(numbers, len(self))
        return " ".join(self.words[number] for number in ended if number not in SPECIAL)

    def knows(self, sentence: str) -> bool:
        return self.numbers.keys() >= set(sentence.split())


# --- Subwords ---------------------------------------------------------------------------------


class Subwords(Vocabulary):
    """This vocabulary gives each subword an ID: special tokens, letters, then the merged pairs."""

    def __init__(
        self, numbers: Mapping[str, int], merges: Sequence[tuple[str, str]], lowercase: bool = True
    ) -> None:
        """Takes each subword's ID, and the pairs of subwords to merge, in the order of learning."""
        self.words, self.lowercase = sorted(numbers, key=numbers.__getitem__), lowercase
        require_words(self.words, SPECIAL_PIECES)
        if [numbers[piece] for piece in self.words] != [*range(len(self.words))]:
            raise invalid("numbers", "pieces numbered from 0", "others", AGAIN)
        self.tokenizer, unknown = untrained(lowercase), SPECIAL_PIECES[UNKNOWN]
        self.tokenizer.model = models.BPE(dict(numbers), list(merges), unk_token=unknown)
        self.tokenizer.add_special_tokens(list(SPECIAL_PIECES.values()))
        self.tokenizer.encode_special_tokens = True  # "<eos>" in a text is a text

    @classmethod
    def of(cls, sentences: Iterable[str], size: int, *, lowercase: bool = True) -> Subwords:
        """Learns `size` subwords from sentences, which should be the training set's only."""
        require_choice("lowercase", lowercase, (True, False))
        made, special = untrained(lowercase), list(SPECIAL_PIECES.values())
        made.add_special_tokens(special)  # so that no piece is learnt from their names in a text
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False)
        made.train_from_iterator(texts_of(sentences), trainer)
        return cls.from_json(made.to_str())

    @classmethod
    def from_json(cls, text: str) -> Subwords:
        """Returns the vocabulary whose subwords, merges and lower-casing `to_json` wrote.

        Other tokenizer steps in the text are not run: some never end, and some abort Python.
        """
        try:
            kept = json.loads(text)
            model, steps = kept["model"], (kept.get("normalizer") or {}).get("normalizers", [])
            cased = [step["type"] for step in steps] == CASED
            merges = [(one, other) for one, other in model["merges"]]
            return cls(model["vocab"], merges, lowercase=not cased)
        except Exception as error:  # the library has no other type
            expected = "a tokenizer.json as Subwords.of makes it"
            raise invalid("tokenizer", expected, error, AGAIN) from None

    def to_json(self) -> str:
        return self.tokenizer.to_str()

    def __reduce__(self) -> tuple[Any, ...]:  # the library's own copy reads "<eos>" as an end
        return type(self).from_json, (self.to_json(),)

    @property
    def merges(self) -> list[tuple[str, str]]:
        """Returns the merged pairs of subwords, in the order of learning."""
        return [tuple(pair) for pair in json.loads(self.to_json())["model"]["merges"]]

    def pieces(self, sentence: str) -> list[str]:
        """Returns the text of each token of the sentence."""
        return self.tokenizer.encode(sentence).tokens

    def encode(self, sentence: str) -> list[int]:
        return self.tokenizer.encode(sentence).ids

    def decode(self, numbers: Sequence[int]) -> str:
        return self.tokenizer.decode(before_end(numbers, len(self)))


CASED = ["NFKC", "Replace", "Strip"]  # the steps of a file that keeps upper case


def untrained(lowercase: bool) -> Tokenizer:
    """Returns a tokenizer that has no vocabulary yet, but normalises, splits and joins text."""
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


def texts_of(sentences: str | Iterable[str]) -> Iterable[str]:
    """Takes a single text for one in a list; raises ValueError for what holds no texts."""
    require_type("sentences", sentences, Iterable)
    return [sentences] if isinstance(sentences, str) else sentences


# --- Pieces of SentencePiece ------------------------------------------------------------------


class Pieces(Vocabulary):
    """This vocabulary is OPUS-MT's: SentencePiece cuts one language, and both share the token IDs.

    A language that is asked for at the head of a sentence, as in ">>fra<< Hello", is one token.
    """

    lowercase = False

    def __init__(self, model: bytes, words: Sequence[str]) -> None:
        """Takes the bytes of SentencePiece's file, and each ID's text, special tokens first."""
        try:
            from sentencepiece import SentencePieceProcessor
        except ImportError:
            fix = 'install it with pip install "unmasked[hub]"'
            missing = invalid("pieces", "the package sentencepiece", "none", fix)
            raise RefusedError(missing) from None
        self.model, self.words = model, list(words)
        require_words(self.words, SPECIAL_PIECES)
        self.numbers = {word: n for n, word in enumerate(self.words) if n not in SPECIAL_PIECES}
        try:
            self.processor = SentencePieceProcessor(model_proto=model)
            self.processor.encode("a")  # an empty model fails here
        except RuntimeError as error:
            raise invalid("pieces", "a model of sentencepiece", error, AGAIN) from None

    def pieces(self, sentence: str) -> list[str]:
        """Returns the text of each token of the sentence."""
        asked, closed, rest = sentence.partition("<<")
        if not (closed and asked.startswith(">>")):
            return self.processor.encode(sentence, out_type=str)
        return [asked + closed, *self.processor.encode(rest, out_type=str)]

    def encode(self, sentence: str) -> list[int]:
        return [self.numbers.get(piece, UNKNOWN) for piece in self.pieces(sentence)]

    def decode(self, numbers: Sequence[int]) -> str:
        ended = before_end(numbers, len(self))
        text = "".join(self.words[number] for number in ended if number not in SPECIAL_PIECES)
        return text.replace("▁", " ").strip()


# --- Token IDs --------------------------------------------------------------------------------


def require_words(words: Sequence[str], special: Mapping[int, str]) -> None:
    """Raises ValueError unless a vocabulary's words are distinct texts, special tokens first."""
    begin = " ".join(map(str, words[: len(special)]))
    expected = " ".join(special.values())
    texts = {word for word in words if isinstance(word, str)}
    if begin != expected or len(texts) != len(words):
        raise invalid("words", f"{expected}, then each word once", begin or "none", AGAIN)


def until_end(tokens: Sequence[int]) -> list[int]:
    """Returns the token IDs before the first EOS."""
    row = list(tokens)
    return row[: row.index(EOS)] if EOS in row else row


def before_end(numbers: Sequence[int], size: int) -> list[int]:
    """Returns the token IDs before the first EOS; ValueError for one not from 0 to size - 1."""
    ended = until_end(numbers)
    if wrong := [number for number in ended if not 0 <= number < size]:
        fix = "take the vocabulary that the model was trained with"
        raise invalid("numbers", f"tokens from 0 to {size - 1}", wrong[0], fix)
    return ended


def pad(sentences: Sequence[Sequence[int]]) -> Tensor:
    """Returns lists of token IDs as one tensor, with padding after the short ones: [B, longest]."""
    rows = [torch.as_tensor(sentence) for sentence in sentences]
    if not rows or any(len(row) == 0 for row in rows):
        got = "an empty one" if rows else "none"
        raise invalid("sentences", "sentences of at least one token", got, "leave empty ones out")
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING).long()

"""Sentences → tokens: whole words, for a language whose words are all known, or subwords.

Byte-pair encoding (Sennrich et al. 2016) begins with letters and merges the most frequent pair of
neighbours again and again, so that nothing is out of vocabulary. One vocabulary serves both
languages. The work is done by Hugging Face's `tokenizers`; text is lower-cased, and a blank is kept
as ▁ at the head of a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor, nn

from .errors import check_text, check_whole, invalid

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
        check_numbers(ended, len(self))
        return " ".join(self.words[number] for number in ended if number not in SPECIAL)


UNKNOWN = 3  # a letter that the training text does not have
SPECIAL_PIECES = {PADDING: "<pad>", BOS: "<bos>", EOS: "<eos>", UNKNOWN: "<unk>"}


class Subwords:
    """A number for each piece: the special tokens first, then letters, then what was merged."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        expected = list(SPECIAL_PIECES.values())
        found = [tokenizer.id_to_token(number) for number in SPECIAL_PIECES]
        if found != expected:
            fix = "make the vocabulary with Subwords.of(sentences, size)"
            raise invalid("tokenizer", f"{' '.join(expected)} first", found, fix)
        check_parts(tokenizer.to_str())
        tokenizer.encode_special_tokens = True  # "<eos>" in a text is a text
        self.tokenizer = tokenizer

    @classmethod
    def of(cls, sentences: Iterable[str], size: int) -> Subwords:
        """Learnt from these sentences: the training set's, and of nothing else."""
        check_whole("size", size, 2 * len(SPECIAL_PIECES))
        made, special = blank(), list(SPECIAL_PIECES.values())
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False)
        made.train_from_iterator(checked(sentences), trainer)
        return cls(made)

    @classmethod
    def from_json(cls, text: str) -> Subwords:
        """What `to_json` wrote. Pieces and merges may be any; a file with steps of its own, some of
        which never end or abort Python, is refused before the library sees it.
        """
        kept = check_parts(text)
        try:
            return cls(Tokenizer.from_str(json.dumps(kept)))  # what was checked, and nothing else
        except Exception as error:
            if type(error) is not Exception:  # the only type that the library has for this
                raise
            raise invalid("tokenizer", MADE, error, "fetch or make the file again") from None

    def to_json(self) -> str:
        return self.tokenizer.to_str(pretty=True)

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
        check_numbers(ended, len(self))
        return self.tokenizer.decode(ended)

    @property
    def merges(self) -> list[tuple[str, str]]:
        """What was merged, in the order in which it was learnt."""
        return [tuple(pair) for pair in json.loads(self.to_json())["model"]["merges"]]


def blank() -> Tokenizer:
    """What becomes of a text before it is cut into pieces, and afterwards; no pieces yet."""
    made = Tokenizer(models.BPE(unk_token=SPECIAL_PIECES[UNKNOWN]))
    blanks = normalizers.Replace(Regex(r"\s+"), " ")
    made.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), blanks, normalizers.Strip()]
    )
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation("isolated")]
    )
    made.decoder = decoders.Metaspace()
    made.add_special_tokens(list(SPECIAL_PIECES.values()))
    return made


MADE = "a tokenizer.json as Subwords.of makes it"


def check_parts(text: str) -> Any:
    """What a tokenizer's file says, if it says nothing but pieces and merges of its own."""
    fix = "fetch or make the file again"
    try:
        kept = json.loads(text)
        other = differing(parts(kept), parts(json.loads(blank().to_str())))
        numbers = sorted(kept["model"]["vocab"].values()) if not other else []
    except (json.JSONDecodeError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise invalid("tokenizer", MADE, error, fix) from None
    if not other and numbers != [*range(len(numbers))]:
        other = "model.vocab"
    if other:
        raise invalid("tokenizer", MADE, f"another {other}", fix)
    return kept


def parts(kept: Any) -> Any:
    """A tokenizer's description without its pieces and merges."""
    if not isinstance(kept, dict) or not isinstance(kept.get("model"), dict):
        return kept
    model = {name: x for name, x in kept["model"].items() if name not in ("vocab", "merges")}
    return {**kept, "model": model}


def differing(kept: Any, own: Any) -> str:
    """The first part that is not our own. An older version of the library may leave some out."""
    if isinstance(kept, list) and isinstance(own, list) and len(kept) == len(own):
        return "beginning" if any(map(differing, kept, own)) else ""
    if not isinstance(kept, dict) or not isinstance(own, dict):
        return "" if kept == own else "beginning"
    for part, value in kept.items():
        if part not in own or differing(value, own[part]):
            return part if part != "model" else f"model.{differing(value, own[part])}"
    return ""


def checked(sentences: Iterable[str]) -> Iterator[str]:
    for number, sentence in enumerate(sentences, 1):
        check_text(f"sentence {number}", sentence)
        yield sentence


def check_numbers(numbers: Sequence[int], size: int) -> None:
    if wrong := [number for number in numbers if not 0 <= number < size]:
        fix = "take the vocabulary that the model was trained with"
        raise invalid("numbers", f"tokens from 0 to {size - 1}", wrong[0], fix)


def until_end(tokens: Sequence[int]) -> list[int]:
    """What comes before the first EOS."""
    row = list(tokens)
    return row[: row.index(EOS)] if EOS in row else row


Vocabulary = Words | Subwords


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

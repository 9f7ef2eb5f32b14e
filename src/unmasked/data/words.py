"""Words as tokens: the plainest tokenizer, for a language whose words are all known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..special import BOS, EOS, PADDING
from ..validation import invalid
from .batching import until_end

SPECIAL = {PADDING: "<pad>", BOS: "<bos>", EOS: "<eos>"}


class Words:
    """A number for each word: the special tokens first, then the words of a text, sorted."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self.numbers = {word: number for number, word in enumerate(self.words)}
        expected = [SPECIAL[number] for number in range(len(SPECIAL))]
        if self.words[: len(SPECIAL)] != expected or len(self.numbers) != len(self.words):
            fix = "make the vocabulary with Words.of(sentences)"
            got = " ".join(self.words[: len(SPECIAL)]) or "none"
            raise invalid("words", f"{' '.join(expected)}, then each word once", got, fix)
        for name in expected:  # written in a text it is a word like others, and unknown
            del self.numbers[name]

    @classmethod
    def of(cls, sentences: Iterable[str]) -> Words:
        """All words of these sentences: the training set's, and of nothing else."""
        found = {word for sentence in sentences for word in sentence.split()}
        return cls([*SPECIAL.values(), *sorted(found - set(SPECIAL.values()))])

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
        return " ".join(self.words[number] for number in ended if number not in SPECIAL)

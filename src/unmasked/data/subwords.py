"""Subwords: frequent words whole, rare ones in pieces, so that nothing is out of vocabulary.

Byte-pair encoding (Sennrich et al. 2016) begins with letters and merges the most frequent pair of
neighbours again and again. One vocabulary serves both languages. The work is done by Hugging
Face's `tokenizers`; text is lower-cased, and a blank is kept as ▁ at the head of a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from ..special import BOS, EOS, PADDING
from ..validation import check_at_least, invalid
from .batching import until_end
from .words import Words

UNKNOWN = 3  # a letter that the training text does not have
SPECIAL = {PADDING: "<pad>", BOS: "<bos>", EOS: "<eos>", UNKNOWN: "<unk>"}


class Subwords:
    """A number for each piece: the special tokens first, then letters, then what was merged."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        expected = list(SPECIAL.values())
        found = [tokenizer.id_to_token(number) for number in SPECIAL]
        if found != expected:
            fix = "make the vocabulary with Subwords.of(sentences, size)"
            raise invalid("tokenizer", f"{' '.join(expected)} first", found, fix)
        tokenizer.encode_special_tokens = True  # "<eos>" in a text is a text
        self.tokenizer = tokenizer

    @classmethod
    def of(cls, sentences: Iterable[str], size: int) -> Subwords:
        """Learnt from these sentences: the training set's, and of nothing else."""
        check_at_least("size", size, 2 * len(SPECIAL))
        made = Tokenizer(models.BPE(unk_token=SPECIAL[UNKNOWN]))
        blanks = normalizers.Replace(Regex(r"\s+"), " ")
        made.normalizer = normalizers.Sequence(
            [normalizers.NFKC(), normalizers.Lowercase(), blanks, normalizers.Strip()]
        )
        made.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation("isolated")]
        )
        made.decoder = decoders.Metaspace()
        special = list(SPECIAL.values())
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False)
        made.train_from_iterator(sentences, trainer)
        return cls(made)

    @classmethod
    def from_json(cls, text: str) -> Subwords:
        try:
            return cls(Tokenizer.from_str(text))
        except Exception as error:
            if type(error) is not Exception:  # the only type that the library has for this
                raise
            fix = "fetch or make the file again"
            raise invalid("tokenizer", "a tokenizer.json", str(error), fix) from None

    def to_json(self) -> str:
        return self.tokenizer.to_str(pretty=True)

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

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
        return self.tokenizer.decode(until_end(numbers))

    @property
    def merges(self) -> list[tuple[str, str]]:
        """What was merged, in the order in which it was learnt."""
        return [tuple(pair) for pair in json.loads(self.to_json())["model"]["merges"]]


Vocabulary = Words | Subwords

"""A model together with the words it knows: sentences in, sentences out, kept in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from .config import TransformerConfig
from .data.batching import pad
from .data.corpus import Corpus
from .data.words import Words
from .search import Hypotheses, beam, greedy
from .special import BOS, EOS
from .transformer import Transformer
from .validation import check_at_least, check_type, invalid
from .weights import read_tensors, set_tensors, tensors_of, write_tensors

FORMAT = "unmasked model 1"
WEIGHTS, CONFIG = "model.safetensors", "config.json"


class Translator:
    """`about` says where the weights come from: data, recipe, machine, date."""

    def __init__(
        self,
        model: Transformer,
        source: Words,
        target: Words,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        check_type("model", model, Transformer)
        for name, words, size in (
            ("source", source, model.config.source_vocab),
            ("target", target, model.config.target_vocab),
        ):
            if len(words) != size:
                fix = "make the model's configuration with len(words)"
                raise invalid(name, f"the model's {size} words", len(words), fix)
        self.model, self.source, self.target, self.about = model, source, target, dict(about or {})

    # --- Sentences → tokens → sentences ---------------------------------------------------------

    def tokens(self, sentences: Iterable[str]) -> Tensor:
        """What the encoder reads: each sentence with its EOS, padded. [B, S]"""
        return pad([[*self.source.encode(sentence), EOS] for sentence in sentences])

    def corpus(self, pairs: Iterable[tuple[str, str]]) -> Corpus:
        """Pairs of sentences, for training."""
        both = [(self.source.encode(a), self.target.encode(b)) for a, b in pairs]
        return Corpus([[*a, EOS] for a, _ in both], [[BOS, *b, EOS] for _, b in both])

    def translate(
        self,
        sentences: Sequence[str],
        *,
        beam_size: int = 1,
        length_penalty: float = 0.6,
        max_new_tokens: int | None = None,
        batch_size: int = 128,
    ) -> list[str]:
        """The model's own translations, greedy or with a beam, sentences of a length together."""
        check_at_least("beam_size", beam_size, 1)
        check_at_least("batch_size", batch_size, 1)
        device = next(self.model.parameters()).device
        order = sorted(range(len(sentences)), key=lambda number: len(sentences[number]))
        written: dict[int, str] = {}
        for start in range(0, len(order), batch_size):
            numbers = order[start : start + batch_size]
            source = self.tokens(sentences[number] for number in numbers).to(device)
            if beam_size == 1:
                best = greedy(self.model, source, max_new_tokens)
            else:
                options: Any = {"length_penalty": length_penalty}
                found: Hypotheses = beam(self.model, source, beam_size, max_new_tokens, **options)
                best = found.tokens[:, 0]
            written |= zip(numbers, map(self.target.decode, best.tolist()), strict=True)
        return [written[number] for number in range(len(sentences))]

    # --- On disk --------------------------------------------------------------------------------

    def save(self, folder: Path | str) -> None:
        """Weights as safetensors; configuration, words and `about` as JSON."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        kept = {
            "format": FORMAT,
            "model": asdict(self.model.config),
            "source": self.source.words,
            "target": self.target.words,
            "about": self.about,
        }
        for name in (WEIGHTS, CONFIG):  # whole or not there
            unfinished = path / f".unfinished-{name}"
            if name == WEIGHTS:
                write_tensors(unfinished, tensors_of(self.model))
            else:
                text = json.dumps(kept, indent=1, ensure_ascii=False)
                unfinished.write_text(text + "\n", encoding="utf-8")
            unfinished.replace(path / name)

    @classmethod
    def load(cls, folder: Path | str) -> Translator:
        path = Path(folder)
        try:
            kept = json.loads((path / CONFIG).read_text(encoding="utf-8"))
            if kept["format"] != FORMAT:
                fix = "it is of another version: use that version, or train again"
                raise invalid(str(path), repr(FORMAT), repr(kept["format"]), fix)
            config = TransformerConfig(**kept["model"])
            words = Words(kept["source"]), Words(kept["target"])
        except OSError:
            fix = "give the folder that `python -m unmasked train` wrote"
            raise invalid(str(path), f"a folder with {CONFIG} and {WEIGHTS}", "none", fix) from None
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            fix = "the file is damaged or of another kind: fetch or make it again"
            raise invalid(str(path / CONFIG), "a model's configuration", error, fix) from None
        model = Transformer(config)
        set_tensors(model, read_tensors(path / WEIGHTS))
        return cls(model.eval(), *words, kept["about"])

"""A model together with the words it knows: sentences in, sentences out, kept in a folder."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from operator import methodcaller
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from tqdm import tqdm

from .config import TransformerConfig
from .data.batching import pad
from .data.corpus import Corpus
from .data.sources import languages
from .data.subwords import Subwords, Vocabulary
from .data.words import Words
from .files import digest, flush
from .search import beam, greedy
from .special import EOS
from .transformer import Transformer
from .validation import check_at_least, check_type, invalid
from .weights import read_tensors, set_tensors, tensors_of, write_tensors

FORMAT = "unmasked model 2"
WEIGHTS, TOKENIZER, CONFIG = "model.safetensors", "tokenizer.json", "config.json"


class Translator:
    """`about` says where the weights come from: data, recipe, machine, date."""

    def __init__(
        self,
        model: Transformer,
        source: Vocabulary,
        target: Vocabulary,
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
        return pad([self.read(sentence) for sentence in sentences])

    def read(self, sentence: str) -> list[int]:
        return [*self.source.encode(sentence), EOS]

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def corpus(self, pairs: Iterable[tuple[str, str]]) -> Corpus:
        """Pairs of sentences, for training."""
        return Corpus.of(self.source, self.target, pairs)

    def translate(
        self,
        sentences: Sequence[str],
        *,
        beam_size: int = 1,
        length_penalty: float | None = None,
        max_new_tokens: int | None = None,
        batch_size: int = 128,
        progress: bool = False,
    ) -> list[str]:
        """The model's own translations, greedy or with a beam; an empty sentence stays empty.

        Sentences of a length go together, the longest first. `progress` is for a terminal. Without
        a `length_penalty` it is the one that was chosen for these weights, or else the paper's 0.6.
        """
        if isinstance(sentences, str):
            fix = "put it in a list, even if it is alone"
            raise invalid("sentences", "a list of sentences", "a single text", fix)
        check_at_least("beam_size", beam_size, 1)
        check_at_least("batch_size", batch_size, 1)
        sources = list(map(self.numbered, range(len(sentences)), sentences))  # all, before the work
        full = [number for number, sentence in enumerate(sentences) if sentence.strip()]
        order = sorted(full, key=lambda number: -len(sources[number]))
        written = [""] * len(sources)
        if length_penalty is None:
            length_penalty = self.about.get("length_penalty", 0.6)
        hidden = {} if progress and sys.stderr.isatty() else {"disable": True}
        with tqdm(total=len(order), desc="translating", unit="sentence", **hidden) as bar:
            for start in range(0, len(order), batch_size):
                numbers = order[start : start + batch_size]
                source = pad([sources[number] for number in numbers]).to(self.device)
                if beam_size == 1:
                    best = greedy(self.model, source, max_new_tokens)
                else:
                    options: Any = {"length_penalty": length_penalty}
                    found = beam(self.model, source, beam_size, max_new_tokens, **options)
                    best = found.tokens[:, 0]
                for number, tokens in zip(numbers, best.tolist(), strict=True):
                    written[number] = self.target.decode(tokens)
                bar.update(len(numbers))
        return written

    def numbered(self, number: int, sentence: str) -> list[int]:
        """Its words' tokens; an error says which sentence it is."""
        try:
            return self.read(sentence)
        except ValueError as error:
            what = str(error).removeprefix("sentence")
            raise ValueError(f"sentence {number + 1}{what}") from None

    @property
    def languages(self) -> tuple[str, str] | None:
        """From which to which, if its recipe says so."""
        return languages(**self.about.get("recipe", {}).get("data", {}))

    # --- On disk --------------------------------------------------------------------------------

    def save(self, folder: Path | str, *, dtype: torch.dtype | None = None) -> None:
        """Weights as safetensors; configuration, words and `about` as JSON.

        A `dtype` such as torch.float16 makes the file smaller and rounds the weights. Each file is
        whole or not there, and files of two different savings do not load.
        """
        path = Path(folder)
        kept = {"format": FORMAT, "model": asdict(self.model.config), "about": self.about}
        joint = self.source if isinstance(self.source, Subwords) else None
        if isinstance(self.source, Words) and isinstance(self.target, Words):
            kept |= {"source": self.source.words, "target": self.target.words}
        elif self.source is not self.target:
            fix = "give source and target the same object"
            raise invalid("target", "the source's own subwords", "others", fix)
        names = [WEIGHTS, *([TOKENIZER] if joint else []), CONFIG]
        files = {name: path / f".unfinished-{name}" for name in names}
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_tensors(files[WEIGHTS], tensors_of(self.model), dtype)
            if joint:
                files[TOKENIZER].write_text(joint.to_json() + "\n", encoding="utf-8")
            kept["sums"] = {name: digest(files[name]) for name in names[:-1]}
            plain = methodcaller("item")  # NumPy's numbers
            text = json.dumps(kept, indent=1, ensure_ascii=False, default=plain)
            files[CONFIG].write_text(text + "\n", encoding="utf-8")
            shutil.copymode(files[CONFIG], files[WEIGHTS])  # else others may not read it
            for file in files.values():
                flush(file)
            for name, file in files.items():
                file.replace(path / name)
        except (OSError, SafetensorError) as error:
            message = f"{path}: the model could not be written ({error})"
            raise OSError(f"{message}; choose a folder with space that you may write in") from error

    @classmethod
    def load(cls, folder: Path | str) -> Translator:
        path = Path(folder)
        try:
            kept = json.loads((path / CONFIG).read_text(encoding="utf-8"))
            if kept["format"] != FORMAT:
                raise ValueError(f"the format {kept['format']!r} instead of {FORMAT!r}")
            for name, expected in kept["sums"].items():
                if digest(path / name) != expected:
                    raise ValueError(f"a {name} that {CONFIG} does not belong to")
            model = Transformer(TransformerConfig(**kept["model"]))
            set_tensors(model, read_tensors(path / WEIGHTS))
            source: Vocabulary
            target: Vocabulary
            if TOKENIZER in kept["sums"]:
                source = target = Subwords.from_json((path / TOKENIZER).read_text("utf-8"))
            else:
                source, target = Words(kept["source"]), Words(kept["target"])
            return cls(model.eval(), source, target, dict(kept["about"]))
        except OSError as error:
            fix = "give the folder that `python -m unmasked train` wrote"
            expected = f"a folder with {CONFIG} and {WEIGHTS}"
            raise invalid(str(path), expected, f"{error.strerror}", fix) from None
        except (ValueError, KeyError, TypeError) as error:
            got = f"no {error}" if isinstance(error, KeyError) else error
            fix = "its files are damaged or of another version: fetch or make them again"
            raise invalid(str(path), "a model's folder", got, fix) from None

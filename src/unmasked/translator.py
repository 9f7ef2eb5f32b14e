"""A model together with the words it knows: sentences in, sentences out; kept, and shipped."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from .errors import invalid, printable, require_text, require_type, require_whole
from .search import beam, generator_of, greedy, require_chance, sample
from .storage.model import Kept, read, tensors_to_keep, write
from .storage.weights import filled, require_finite, tensors_of
from .text.corpus import Corpus
from .text.sources import languages
from .tokens import EOS, Vocabulary, pad
from .transformer import Transformer, without_numbers

BUDGET = 1 << 14  # tokens that a search gets at once, padding included,
BATCH = 128  # and sentences
FAR = 4  # times as long as the model was made for: refused, since nothing would come of it


class Translator:
    """`about` says where the weights come from: data, recipe, machine, date."""

    def __init__(
        self,
        model: Transformer,
        source: Vocabulary,
        target: Vocabulary,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        require_type("model", model, Transformer)
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
        require_text("sentence", sentence)
        return [*self.source.encode(sentence), EOS]

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def corpus(self, pairs: Iterable[tuple[str, str]]) -> Corpus:
        """Pairs of sentences, for training."""
        return Corpus.of(self.source, self.target, pairs)

    def translate(
        self,
        sentences: str | Iterable[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        normalize: str | None = None,
        max_new_tokens: int | None = None,
        progress: bool = False,
    ) -> Any:
        """The model's own translations, one for each sentence; an empty sentence stays empty.

        Args:
            sentences: one text, which gives one text; or several, which give a list.
            beam_size: 1 is greedy search, which is what None means for most models; one from
                elsewhere may name another (`about`).
            length_penalty, normalize: of a beam, as for `search.beam`; those that were chosen for
                these weights, or else the paper's 0.6 and "gnmt".
            max_new_tokens: of each translation; else its source's length and fifty more.
            progress: shows a bar, on a terminal.
        """
        beam_size = self.about.get("beam_size", 1) if beam_size is None else beam_size
        require_whole("beam_size", beam_size)
        if length_penalty is not None and beam_size == 1:
            fix = "give beam_size=5, for example, or leave it out"
            raise invalid("length_penalty", "a beam that it could be for", length_penalty, fix)
        options: Any = {"length_penalty": length_penalty, "normalize": normalize}
        for name, otherwise in (("length_penalty", 0.6), ("normalize", "gnmt")):
            if options[name] is None:
                options[name] = self.about.get(name, otherwise)

        def search(source: Tensor) -> Tensor:
            if beam_size == 1:
                return greedy(self.model, source, max_new_tokens)
            return beam(self.model, source, beam_size, max_new_tokens, **options).tokens[:, 0]

        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        translations = self.in_batches(texts, search, progress, width=beam_size)
        written = [of_one[0] if of_one else "" for of_one in translations]
        return written[0] if isinstance(sentences, str) else written

    def sample(
        self,
        sentences: Iterable[str],
        n_samples: int = 1,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        seed: int | torch.Generator | None = None,
        max_new_tokens: int | None = None,
        progress: bool = False,
    ) -> list[list[str]]:
        """Translations by chance, `n_samples` of each sentence; an empty sentence has none.

        With a seed they are the same each time. See `search.sample` for the options.
        """
        require_whole("n_samples", n_samples)
        if isinstance(sentences, str):
            fix = "put it in a list, even if it is alone"
            raise invalid("sentences", "a list of sentences", "a single text", fix)
        require_chance(temperature, top_k, top_p, seed)
        generator = generator_of(seed)  # one for all batches
        options: Any = {"temperature": temperature, "top_k": top_k, "top_p": top_p}

        def search(source: Tensor) -> Tensor:
            return sample(self.model, source, max_new_tokens, **options, seed=generator)

        return self.in_batches(list(sentences), search, progress, each=n_samples)

    def in_batches(
        self,
        sentences: Sequence[str],
        search: Callable[[Tensor], Tensor],
        progress: bool,
        *,
        width: int = 1,
        each: int = 1,
    ) -> list[list[str]]:
        """What a search finds for each sentence, asked `each` times: source [B, S] → [B, T].

        The longest go first, so that what takes too much memory fails at once.
        """
        sources = list(map(self.numbered, range(len(sentences)), sentences))  # all, before the work
        full = [number for number, sentence in enumerate(sentences) if sentence.strip()]
        order = sorted(full, key=lambda number: -len(sources[number]))
        rows = [number for number in order for _ in range(each)]
        written: list[list[str]] = [[] for _ in sources]
        bar_options = {} if progress and sys.stderr.isatty() else {"disable": True}
        with tqdm(total=len(rows), desc="translating", unit="sentence", **bar_options) as bar:
            start = 0
            while start < len(rows):
                room = BUDGET // (len(sources[rows[start]]) * max(1, width // 4))
                most = min(max(BATCH // each, 1) * each, max(room, 1))
                numbers = rows[start : start + most]
                rows_written = search(pad([sources[number] for number in numbers]).to(self.device))
                for number, tokens in zip(numbers, rows_written.tolist(), strict=True):
                    written[number].append(self.target.decode(tokens))
                bar.update(len(numbers))
                start += most
        return written

    def numbered(self, number: int, sentence: str) -> list[int]:
        """Its words' tokens; an error says which sentence it is."""
        name, most = f"sentence {number + 1}", self.model.config.max_len
        try:
            tokens = self.read(sentence)
        except ValueError as error:
            what = str(error).removeprefix("sentence")
            raise ValueError(f"{name}{what}") from None
        if len(tokens) > most:
            expected = f"at most the {most} tokens that the model was made for"
            wrong = invalid(name, expected, f"{len(tokens):,}", "give it sentence by sentence")
            if len(tokens) > min(FAR * most, self.model.config.reach):
                raise wrong
            warnings.warn(f"{wrong}: this will be slow, and poor", stacklevel=2)
        return tokens

    @property
    def data(self) -> Mapping[str, Any]:
        """What it was trained on, if its recipe says so."""
        recipe = self.about.get("recipe")
        data = recipe.get("data") if isinstance(recipe, Mapping) else None
        return data if isinstance(data, Mapping) else {}

    @property
    def languages(self) -> tuple[str, str] | None:
        """From which to which, if its recipe says so."""
        return languages(**self.data)

    # --- On disk --------------------------------------------------------------------------------

    def save(self, path: Path | str, *, dtype: torch.dtype | None = None) -> None:
        """Writes one file, `mine.safetensors`: weights, configuration, words and `about`.

        A `dtype` such as torch.float16 makes it smaller and rounds the weights. Whatever happens,
        the file is whole, the one before or this one.
        """
        tensors = tensors_to_keep(self.model)
        kept = Kept(self.model.config, tensors, self.source, self.target, self.about)
        write(Path(path), kept, dtype)

    @classmethod
    def load(cls, path: Path | str) -> Translator:
        return read(Path(path), cls.from_kept)

    @classmethod
    def from_kept(cls, kept: Kept) -> Translator:
        model = without_numbers(kept.config)
        if {tensor.dtype for tensor in kept.tensors.values()} == {torch.float64}:
            model.double()
        filled(model, kept.tensors)
        require_finite(tensors_of(model), "the weights are too large for the model's own type")
        return cls(model.eval(), kept.source, kept.target, kept.about)


# --- The trained models of this package -------------------------------------------------------

MODELS = Path(__file__).parent / "models"
HUB = ["*.json", "*.spm", "*.safetensors", "pytorch_model.bin"]  # what is fetched of a repository


def shipped_models() -> list[str]:
    return sorted(path.stem for path in MODELS.glob("*.safetensors"))


def load(model: Path | str) -> Translator:
    """A trained model with its words, on the CPU: `load("de-en").translate("Ein Hund schläft.")`.

    Args:
        model: one of the package, `de-en` or `en-de`, without a download; a file that
            `Translator.save` wrote, the folder of a training, or one in OPUS-MT's format
            (`interop.from_marian`); or a repository on huggingface.co with such files,
            "owner/name", fetched once.
    """
    return Translator.load(path_of(model))


def path_of(model: Path | str) -> Path:
    """Where it is: what is here goes before what is shipped, and that before huggingface.co."""
    name, path = str(model), Path(str(model))
    if name and path.exists():
        if name in shipped_models():
            print(f"{name}: the one in {Path.cwd()}, not the shipped one", file=sys.stderr)
        return path
    if name in shipped_models():
        return MODELS / f"{name}.safetensors"
    expected = f"a file, a folder, or one of {', '.join(shipped_models())}"
    fix = "check the path"
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name) and not path.parent.exists():
        try:
            from huggingface_hub import snapshot_download

            return Path(snapshot_download(name, allow_patterns=HUB))
        except ImportError:
            fix += '; for one on huggingface.co, pip install "unmasked[hub]"'
        except Exception as error:  # of many kinds: no such repository, no network, no space
            fix += f"; on huggingface.co: {printable(str(error))}"
    raise invalid("model", expected, repr(name), fix)

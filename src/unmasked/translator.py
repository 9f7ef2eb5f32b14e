"""A translator joins a model with its two vocabularies: sentences go in, translations come out."""

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
from .tokens import EOS, PADDING, Vocabulary, pad, texts_of
from .transformer import Transformer, without_numbers

BUDGET = 1 << 14  # tokens that a search gets at once, padding included,
BATCH = 128  # and sentences
FAR = 4  # times as long as the model was made for: refused, since nothing would come of it


class Translator:
    """Translates sentences with a model and its two vocabularies.

    The dictionary `about` says where the weights come from: data, recipe, machine, date.
    """

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

    def __repr__(self) -> str:
        weights = list(self.model.parameters())
        count = sum(weight.numel() for weight in weights)
        which = " → ".join(self.languages or ()) or "a translator"
        return f"<{which}, {count:,} parameters, {weights[0].dtype}, {self.device}>"

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def to(self, *device_or_dtype: Any, **named: Any) -> Translator:
        """Moves the model as `torch.nn.Module.to` does, and returns this translator."""
        self.model.to(*device_or_dtype, **named)
        return self

    # --- Sentences → tokens → sentences ---------------------------------------------------------

    def tokens(self, sentences: str | Iterable[str]) -> Tensor:
        """Returns the encoder's input, the sentences' token IDs with EOS, padded: [B, S]."""
        return pad([self.read(sentence) for sentence in texts_of(sentences)])

    def read(self, sentence: str) -> list[int]:
        require_text("sentence", sentence)
        return [*self.source.encode(sentence), EOS]

    def corpus(self, pairs: Iterable[tuple[str, str]]) -> Corpus:
        """Returns a corpus of (source, target) sentence pairs as token IDs, for training."""
        return Corpus.of(self.source, self.target, pairs)

    def translate(
        self,
        sentences: str | Iterable[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        normalize: str | None = None,
        prefix: str | Iterable[str] | None = None,
        max_new_tokens: int | None = None,
        progress: bool = False,
    ) -> Any:
        """Returns the model's translation of each sentence; an empty sentence stays empty.

        Args:
            sentences: one text, which gives one text; or several, which give a list.
            beam_size: 1 is greedy search, the default of most models; a model from elsewhere may
                name another in `about`.
            length_penalty, normalize: are those of `search.beam`; by default those chosen for these
                weights, or else the paper's 0.6 and "gnmt".
            prefix: the beginning that each translation must have: one text for all, or one each.
                The model goes on behind its last token, perhaps within a word.
            max_new_tokens: the most tokens of a translation; by default its source's + 50.
            progress: shows a progress bar on a terminal.
        """
        beam_size = self.about.get("beam_size", 1) if beam_size is None else beam_size
        require_whole("beam_size", beam_size)
        options: Any = {"length_penalty": length_penalty, "normalize": normalize}
        for name, otherwise in (("length_penalty", 0.6), ("normalize", "gnmt")):
            if options[name] is None:
                options[name] = self.about.get(name, otherwise)
            elif beam_size == 1:
                fix = "give beam_size=5, for example, or leave it out"
                raise invalid(name, "a beam that it could be for", repr(options[name]), fix)

        def search(source: Tensor, begun: Tensor | None) -> Tensor:
            given = (self.model, source)
            if beam_size == 1:
                return greedy(*given, max_new_tokens, prefix=begun)
            found = beam(*given, beam_size, max_new_tokens, prefix=begun, **options)
            return found.tokens[:, 0]

        found = self.in_batches(
            list(texts_of(sentences)), search, progress, prefix, width=beam_size
        )
        written = [translations[0] if translations else "" for translations in found]
        return written[0] if isinstance(sentences, str) else written

    def sample(
        self,
        sentences: str | Iterable[str],
        n_samples: int = 1,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        seed: int | torch.Generator | None = None,
        prefix: str | Iterable[str] | None = None,
        max_new_tokens: int | None = None,
        progress: bool = False,
    ) -> Any:
        """Returns `n_samples` random translations of each sentence; an empty sentence has none.

        One text gives one list, several give a list of lists; with a seed they are the same each
        time. `search.sample` explains the options, `translate` the prefix.
        """
        require_whole("n_samples", n_samples)
        require_chance(temperature, top_k, top_p, seed)
        generator = generator_of(seed)  # one for all batches
        options: Any = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        options |= {"seed": generator, "max_new_tokens": max_new_tokens}

        def search(source: Tensor, begun: Tensor | None) -> Tensor:
            return sample(self.model, source, prefix=begun, **options)

        found = self.in_batches(list(texts_of(sentences)), search, progress, prefix, each=n_samples)
        return found[0] if isinstance(sentences, str) else found

    def in_batches(
        self,
        sentences: Sequence[str],
        search: Callable[[Tensor, Tensor | None], Tensor],
        progress: bool,
        prefix: str | Iterable[str] | None = None,
        *,
        width: int = 1,
        each: int = 1,
    ) -> list[list[str]]:
        """Returns the texts that `search` finds for each sentence, which it gets `each` times.

        The longest go first, so that too little memory shows at once. The search gets the sources
        [B, S] and the translations' prefixes [B, P], and returns translations [B, T].
        """
        sources = list(map(self.numbered, range(len(sentences)), sentences))  # all, before the work
        begun = None if prefix is None else self.beginnings(prefix, len(sentences))
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
                source = pad([sources[number] for number in numbers]).to(self.device)
                rows_written = search(source, None if begun is None else begun[numbers])
                for number, tokens in zip(numbers, rows_written.tolist(), strict=True):
                    written[number].append(self.target.decode(tokens))
                bar.update(len(numbers))
                start += most
        return written

    def beginnings(self, prefix: str | Iterable[str], n: int) -> Tensor | None:
        """Returns the token IDs of n prefixes, padded, [n, P], or None if all are empty."""
        texts = [prefix] * n if isinstance(prefix, str) else list(prefix)
        if len(texts) != n:
            raise invalid("prefix", f"one text, or {n}", len(texts), "give each sentence one")
        for text in texts:
            require_text("prefix", text)
            if not self.target.knows(text):
                raise invalid("prefix", "words the model can write", repr(text), "use others")
        rows = [self.target.encode(text) for text in texts]
        return pad([row or [PADDING] for row in rows]).to(self.device) if any(rows) else None

    def numbered(self, number: int, sentence: str) -> list[int]:
        """Returns a sentence's token IDs; an error says which sentence it is, by its number."""
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
        """Returns what the recipe in `about` says of the training data, or an empty dictionary."""
        recipe = self.about.get("recipe")
        data = recipe.get("data") if isinstance(recipe, Mapping) else None
        return data if isinstance(data, Mapping) else {}

    @property
    def languages(self) -> tuple[str, str] | None:
        """Returns source and target language if the recipe in `about` names them, else None."""
        return languages(**self.data)

    # --- On disk --------------------------------------------------------------------------------

    def save(self, path: Path | str, *, dtype: torch.dtype | None = None) -> None:
        """Writes weights, configuration, vocabularies and `about` to one `.safetensors` file.

        A `dtype` such as torch.float16 makes it smaller and rounds the weights. If the saving is
        interrupted, an older file stays whole.
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


def load(
    model: Path | str,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Translator:
    """Loads a trained translator: `load("de-en").translate("Ein Hund schläft.")`.

    Args:
        model: one of the package, `de-en` or `en-de`, without a download; a file that
            `Translator.save` wrote, the folder that a training wrote, or one in OPUS-MT's format
            (`interop.from_marian`); or a repository on huggingface.co with such files,
            "owner/name", fetched once.
        device, dtype: move the weights; by default they are on the CPU, in the type of the file.
    """
    return Translator.load(path_of(model)).to(device, dtype)


def path_of(model: Path | str) -> Path:
    """Returns a model's path: one that exists, else of this package, else fetched from the Hub."""
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

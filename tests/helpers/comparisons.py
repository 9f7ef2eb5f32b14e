"""Is the engine the package? Every comparison once, as a row of the page's table."""

from __future__ import annotations

import copy
import random
import tempfile
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Page
from torch import Tensor

import unmasked
from helpers import MODELS, VOCABULARY, small_config
from helpers.engine import Engine, without_padding
from unmasked import plain
from unmasked.masks import padding_mask
from unmasked.search import beam, greedy
from unmasked.text.phrasebook import sentence_pairs
from unmasked.tokens import BOS, Words, pad
from unmasked.translator import Translator, path_of, shipped_models
from unmasked_book.ablation import PARTS, without
from unmasked_book.captions import CAPTIONS
from unmasked_book.live.tables import PARTS as PARTS_SAID
from unmasked_book.live.translator import camel

LIMIT = 2e-5  # between logits of size ten or twenty: what float32 rounds away

NASTY = [
    "", " ", "\t\n", "a", "<eos>", "<pad> <unk>", "▁", "▁ein▁hund", "Ein  Hund .", "…", "--", "ß ẞ",
    "İIıi", "ΟΔΟΣ ΣΑΣ", "ﬁn ﬀ", "①②", "½", "Ａ１", "a\u0301", "é", "e\u0301\u0302", "\u200b",
    "a\u00a0b", "a\u2028b", "a\u3000b", "\u1680x", "\ufeffHund", "日本語。テスト", "😀 hund",
    "\U0001f469\u200d\U0001f467", "don't", "„Hund“", "(ein) [Hund] {x}", "a_b-c/d", "100 %", "€5",
    "+=<>|~^`$", "ein\u0085hund", "x\u001cy", "\x00", "a\x00b", "Straße", "STRASSE", "ǅ", "ﷺ",
    "क्षि", "한국어", "ה ש", "\u0130stanbul", "Hund" * 40, "a" * 300, "." * 50, "ein mann " * 30,
]  # fmt: skip
LETTERS = [
    chr(code)
    for begin, end in ((32, 0x250), (0x300, 0x530), (0x1E00, 0x2070), (0x20A0, 0x2200),
                       (0x3000, 0x30FF), (0x4E00, 0x4E80), (0xFF00, 0xFFEF), (0x1F600, 0x1F640))
    for code in range(begin, end)
    if unicodedata.category(chr(code)) not in {"Cn", "Cs"}
]  # fmt: skip


def texts(name: str) -> dict[str, list[str]]:
    """Sentences of several kinds, in the language that a model reads."""
    german = name.startswith("de")
    captions = [caption.german if german else caption.english for caption in CAPTIONS]
    phrases = [pair.german if german else pair.english for pair in sentence_pairs(300, seed=3)]
    chance = random.Random(5)
    words = " ".join(captions).split()
    mixed = [" ".join(chance.choices(words, k=chance.randint(1, 20))) for _ in range(500)]
    fuzzed = ["".join(chance.choices(LETTERS, k=chance.randint(1, 30))) for _ in range(1000)]
    return {"captions": captions, "the phrasebook's sentences": phrases,
            "captions, their words mixed": mixed, "nasty strings": NASTY,
            "random Unicode": fuzzed}  # fmt: skip


def rows(page: Page) -> Iterator[dict[str, Any]]:
    """What was compared, in how many cases, what differs or by how much, and the limit."""
    every = {name: of_model(page, name) for name in shipped_models()}
    for name, found in (every | {"random weights": of_configurations(page)}).items():
        yield from ({"model": name, **each} for each in found)


def row(what: str, cases: int, limit: float, **found: float) -> dict[str, Any]:
    return {"what": what, "cases": cases, **found, "limit": limit}


def compared(
    what: str, ours: Sequence[Any], theirs: Sequence[Any], limit: float = 0
) -> dict[str, Any]:
    return row(what, len(theirs), limit, differ=different(ours, theirs))


def of_model(page: Page, name: str, every: int = 1) -> Iterator[dict[str, Any]]:
    """With all captions and what follows from them, or with every second, third, … of them."""
    torch.set_num_threads(1)
    translator = unmasked.load(name)
    model = translator.model
    engine = Engine(page, path_of(name))

    for kind, sentences in texts(name).items():
        theirs = [translator.source.encode(sentence) for sentence in sentences]
        yield compared(f"token IDs: {kind}", engine.ask("ids", sentences), theirs)
        if kind in ("captions", "random Unicode"):
            back = [translator.target.decode(tokens) for tokens in theirs]
            yield compared(f"tokens back to text: {kind}", engine.ask("texts", theirs), back)

    sources = [translator.read(sentence) for sentence in texts(name)["captions"][::every]]
    outputs = generated(model, sources)
    pairs = [(s, [BOS, *t[:-1]]) for s, t in zip(sources, outputs, strict=True)]
    gap, _ = largest_gap(engine, model, pairs)
    yield row("logits", sum(len(t) for _, t in pairs), LIMIT, largest=gap)
    some = pairs[: 20 if every == 1 else 2]
    gap = largest_trace_gap(engine, name, pairs)
    what = "every number of the figure, relative to the largest of its kind"
    yield row(what, len(pairs), LIMIT, largest=gap)

    yield compared("greedy translations", engine.search("greedy", sources), outputs)
    alpha = translator.about["length_penalty"]
    searched = beam(model, pad(sources), 5, length_penalty=alpha).tokens[:, 0].tolist()
    best = [without_padding(tokens) for tokens in searched]
    what = f"translations with a beam of 5, length penalty {alpha}"
    yield compared(what, engine.search("beam", sources, width=5, alpha=alpha), best)

    for parts in (*((part,) for part in PARTS), ("encoder_positions", "decoder_positions")):
        yield from of_ablation(engine, model, some, parts)
    heads = [("encoder", 0, 1), ("decoder", 2, 3), ("cross", 1, 3), ("cross", 3, 0)]
    yield from of_ablation(engine, model, some, (), heads)
    gap, _ = largest_gap(engine, model, pairs, {"hidden": [2]})
    yield row("the third source token hidden: logits", len(pairs), LIMIT, largest=gap)

    small = Engine(page, path_of(name), int8=True)
    yield compared("int8: greedy translations", small.search("greedy", sources), outputs, 2)
    found = small.search("beam", sources, width=5, alpha=alpha)
    yield compared("int8: beam of 5", found, best, 2)


def of_ablation(
    engine: Engine, model: Any, pairs: Any, parts: tuple[str, ...], heads: Any = ()
) -> Iterator[dict[str, Any]]:
    """The same parts switched off on both sides: logits, relative to the largest, and outputs.

    A broken model can make much of a rounding error. So its logits may be as far from those of
    float64 as PyTorch's own float32 is, five times over, and as many outputs may differ from those
    of float64 as PyTorch's own do: a limit that is measured, on this machine.
    """
    model = without(model, *parts, heads=heads)
    off = {camel(part): True for part in parts} | {"heads": [" ".join(map(str, h)) for h in heads]}
    what = f"without {' and '.join(PARTS_SAID[part] for part in parts) or 'four heads'}"
    gap, own = largest_gap(engine, model, pairs, off, relative=True)
    limit = max(LIMIT / 10, float(f"{5 * own:.0e}"))
    yield row(f"{what}: logits, relative to the largest", len(pairs), limit, largest=gap)
    sources = [source for source, _ in pairs]
    single, exact = (generated(m, sources, 12) for m in (model, copy.deepcopy(model).double()))
    found = engine.search("greedy", sources, off, limit=12)
    yield {**compared(f"{what}: greedy", found, exact, different(single, exact)), "own": True}


def of_configurations(page: Page) -> Iterator[dict[str, Any]]:
    """Random weights in every kind of model that a configuration can describe."""
    options: list[dict[str, Any]] = [
        {"norm": "post"}, {"norm": "post", "final_norm": True}, {"norm": "pre"},
        {"positions": "learned"}, {"feed_forward": "conv"}, {"activation": "gelu"},
        {"bias": False}, {"attention_bias": False}, {"scale_embeddings": False},
        {"tie_embeddings": "output"}, {"output_bias": True}, {"n_decoder_layers": 3},
    ]  # fmt: skip
    made = [small_config(preset) for preset in MODELS] + [small_config(**each) for each in options]
    pairs = [([4, 9, 5, 22, 2], [1, 7, 8]), ([11, 2], [1, 3, 3, 20, 5, 6])]
    worst = 0.0
    for seed, config in enumerate(made):
        torch.manual_seed(seed)
        translator = random_translator(config, VOCABULARY)
        with tempfile.TemporaryDirectory() as folder:
            translator.save(folder)
            engine = Engine(page, Path(folder))
        worst = max(worst, largest_gap(engine, translator.model, pairs)[0])
    yield row("every option and preset: logits", len(made), LIMIT, largest=worst)


def random_translator(config: Any, size: int) -> Translator:
    """With whole words for tokens, and no parameter at a special value."""
    model = unmasked.Transformer(config).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, std=0.5)
    words = Words(["<pad>", "<bos>", "<eos>", *(f"w{number}" for number in range(size - 3))])
    return Translator(model, words, words)


def generated(model: Any, sources: Sequence[list[int]], most: int | None = None) -> Any:
    return [without_padding(row) for row in greedy(model, pad(sources), most).tolist()]


def largest_gap(
    engine: Engine, model: Any, pairs: Any, off: Any = None, *, relative: bool = False
) -> tuple[float, float]:
    """The largest difference to float64's logits: the engine's, and PyTorch's own in float32."""
    exact = copy.deepcopy(model).double()
    ours = own = 0.0
    for (source, target), got in zip(pairs, engine.logits(pairs, off), strict=True):
        tokens = torch.tensor([source])
        mask = padding_mask(tokens)
        mask[..., (off or {}).get("hidden", [])] = False
        with torch.inference_mode():
            single, double = (
                each(tokens, torch.tensor([target]), source_mask=mask)[0] for each in (model, exact)
            )
        size = float(double.abs().max()) if relative else 1.0
        ours = max(ours, float((got - double).abs().max()) / size)
        own = max(own, float((single - double).abs().max()) / size)
    return ours, own


def largest_trace_gap(engine: Engine, name: str, pairs: Any) -> float:
    """Between all that the engine computes and what hooks on plain.py's modules see."""
    model, worst = plain.Transformer.from_pretrained(name), 0.0
    for source, target in pairs:
        theirs, ours = plain_trace(model, source, target), engine.trace(source, target)
        assert ours.keys() == theirs.keys()
        for what, numbers in theirs.items():
            gap = float((ours[what] - numbers).abs().max() / numbers.abs().max().clamp(min=1))
            worst = max(worst, gap)
    return worst


def plain_trace(
    model: plain.Transformer, source: list[int], target: list[int]
) -> dict[str, Tensor]:
    """The same by hooks on plain.py, in the engine's names."""
    outputs: dict[str, Tensor] = {}
    inputs: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def hook(_: Any, given: Any, output: Tensor) -> None:
            outputs[name], inputs[name] = output[0], given[0][0]

        return hook

    modules = [(name, module) for name, module in model.named_modules() if name]
    handles = [module.register_forward_hook(keep(name)) for name, module in modules]
    with torch.inference_mode():
        model(torch.tensor([source]), torch.tensor([target]))
    for handle in handles:
        handle.remove()
    found = {"memory": outputs["encoder_norm"], "decoder.last": outputs["decoder_norm"]}
    root, split = model.source_embedding.embedding_dim**0.5, model.encoder[0].self_attention
    for half, side, kinds in (
        ("encoder", "source", {"attention": "self"}),
        ("decoder", "target", {"self": "self", "cross": "cross"}),
    ):
        parts = [*kinds, "feed_forward"]
        found[f"{half}.rows"] = outputs[f"{side}_embedding"] * root
        found[f"{half}.input"] = inputs[f"{half}.0.{parts[0]}_norm"]
        for layer in range(len(getattr(model, half))):
            at = f"{half}.{layer}"
            sums = [*(inputs[f"{at}.{part}_norm"] for part in parts[1:]), outputs[at]]
            for part, whole in zip(parts, sums, strict=True):
                found[f"{at}.{part}.before"] = inputs[f"{at}.{part}_norm"]
                found[f"{at}.{part}_norm"] = outputs[f"{at}.{part}_norm"]
                found[f"{at}.{part}.sum"] = whole
            for kind in kinds.values():
                module, own = f"{at}.{kind}_attention", ("key", "value") * (kind == "self")
                for part in ("query", "output", *own):
                    found[f"{at}.{kind}.{part}"] = outputs[f"{module}.{part}"]
                causal = half == "decoder" and kind == "self"
                found[f"{at}.{kind}.heads"] = inputs[f"{module}.output"]
                found[f"{at}.{kind}.weights"] = weights_of(split, outputs, module, causal)
            found[f"{at}.feed_forward.expand"] = outputs[f"{at}.feed_forward.expand"].relu()
            found[f"{at}.feed_forward.contract"] = outputs[f"{at}.feed_forward.contract"]
    return {name: numbers.flatten() for name, numbers in found.items()}


def weights_of(split: Any, outputs: dict[str, Tensor], module: str, causal: bool) -> Tensor:
    """From queries and keys, query by query, and of each head only the keys so far if `causal`."""
    q, k = (split.split(outputs[f"{module}.{part}"][None])[0] for part in ("query", "key"))
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    seen = torch.ones_like(scores, dtype=torch.bool).tril(0 if causal else k.shape[1])
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    return weights.transpose(0, 1)[seen.transpose(0, 1)]


def different(ours: Sequence[Any], theirs: Sequence[Any]) -> int:
    return sum(a != b for a, b in zip(ours, theirs, strict=True))

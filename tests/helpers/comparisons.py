"""Compares the engine with the package; each comparison is a row of the table in `live.md`."""

from __future__ import annotations

import copy
import random
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from playwright.sync_api import Page
from torch import Tensor

import unmasked
from helpers import MODELS
from helpers.engine import Engine, small_translator
from unmasked import plain
from unmasked.masks import padding_mask
from unmasked.search import beam, greedy
from unmasked.text.phrasebook import sentence_pairs
from unmasked.tokens import BOS, pad
from unmasked.translator import path_of, shipped_models
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
    """Returns sentences of several kinds, in the language that a model reads."""
    language = "german" if name.startswith("de") else "english"
    captions, phrases = (
        [getattr(pair, language) for pair in pairs]
        for pairs in (CAPTIONS, sentence_pairs(300, seed=3))
    )
    chance = random.Random(5)
    words = " ".join(captions).split()
    mixed = [" ".join(chance.choices(words, k=chance.randint(1, 20))) for _ in range(500)]
    fuzzed = ["".join(chance.choices(LETTERS, k=chance.randint(1, 30))) for _ in range(1000)]
    return {"captions": captions, "the phrasebook's sentences": phrases,
            "captions, their words mixed": mixed, "nasty strings": NASTY,
            "random Unicode": fuzzed}  # fmt: skip


def rows(page: Page) -> Iterator[dict[str, Any]]:
    """Yields all comparisons: the model, what is compared, in how many cases, what differs."""
    found = {name: of_model(page, name) for name in shipped_models()}
    for name, compared in {**found, "random weights": of_configurations(page)}.items():
        yield from ({"model": name, **each} for each in compared)


def row(what: str, cases: int, limit: float, **found: float) -> dict[str, Any]:
    return {"what": what, "cases": cases, **found, "limit": limit}


def compared(
    what: str, ours: Sequence[Any], theirs: Sequence[Any], limit: float = 0
) -> dict[str, Any]:
    return row(what, len(theirs), limit, differ=different(ours, theirs))


def different(ours: Sequence[Any], theirs: Sequence[Any]) -> int:
    return sum(a != b for a, b in zip(ours, theirs, strict=True))


def of_model(page: Page, name: str, every: int = 1) -> Iterator[dict[str, Any]]:
    """Yields the comparisons of a shipped model, with each caption or every second, third, …"""
    torch.set_num_threads(1)
    translator = unmasked.load(name)
    model, path = translator.model, path_of(name)
    engine = Engine(page, path)
    sentences = texts(name)
    for kind, some in sentences.items():
        tokens = [translator.source.encode(sentence) for sentence in some]
        yield compared(f"token IDs: {kind}", engine.ask("ids", some), tokens)
        if kind in ("captions", "random Unicode"):
            back = [translator.target.decode(each) for each in tokens]
            yield compared(f"tokens back to text: {kind}", engine.ask("texts", tokens), back)

    sources = [translator.read(sentence) for sentence in sentences["captions"][::every]]
    outputs = generated(model, sources)
    pairs = [(s, [BOS, *t[:-1]]) for s, t in zip(sources, outputs, strict=True)]
    gap, _ = largest_gap(engine, model, pairs)
    yield row("logits", sum(len(t) for _, t in pairs), LIMIT, largest=gap)
    what = "every number of the figure, relative to the largest of its kind"
    yield row(what, len(pairs), LIMIT, largest=largest_trace_gap(engine, name, pairs))

    yield compared("greedy translations", engine.search("greedy", sources), outputs)
    alpha = translator.about["length_penalty"]
    options = {"width": 5, "alpha": alpha}
    best = unpadded(beam(model, pad(sources), 5, length_penalty=alpha).tokens[:, 0])
    what = f"translations with a beam of 5, length penalty {alpha}"
    yield compared(what, engine.search("beam", sources, **options), best)

    some = pairs[: 20 if every == 1 else 2]
    for parts in (*((part,) for part in PARTS), ("encoder_positions", "decoder_positions")):
        yield from of_ablation(engine, model, some, parts)
    heads = [("encoder", 0, 1), ("decoder", 2, 3), ("cross", 1, 3), ("cross", 3, 0)]
    yield from of_ablation(engine, model, some, (), heads)
    gap, _ = largest_gap(engine, model, pairs, {"hidden": [2]})
    yield row("the third source token hidden: logits", len(pairs), LIMIT, largest=gap)

    small = Engine(page, path, int8=True)
    yield compared("int8: greedy translations", small.search("greedy", sources), outputs, 2)
    yield compared("int8: beam of 5", small.search("beam", sources, **options), best, 2)


def of_ablation(
    engine: Engine, model: Any, pairs: Any, parts: tuple[str, ...], heads: Any = ()
) -> Iterator[dict[str, Any]]:
    """Yields the logits, relative to the largest, and outputs with parts switched off.

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
    """Yields one row: random weights in every kind of model that a configuration can describe."""
    options: list[dict[str, Any]] = [
        *({"preset": preset} for preset in MODELS),
        {"norm": "post"}, {"norm": "post", "final_norm": True}, {"norm": "pre"},
        {"positions": "learned"}, {"feed_forward": "conv"}, {"activation": "gelu"},
        {"bias": False}, {"attention_bias": False}, {"scale_embeddings": False},
        {"tie_embeddings": "output"}, {"output_bias": True}, {"n_decoder_layers": 3},
    ]  # fmt: skip
    pairs = [([4, 9, 5, 22, 2], [1, 7, 8]), ([11, 2], [1, 3, 3, 20, 5, 6])]
    worst = 0.0
    for seed, changes in enumerate(options):
        torch.manual_seed(seed)
        translator = small_translator(**changes)
        gap, _ = largest_gap(Engine.of(page, translator), translator.model, pairs)
        worst = max(worst, gap)
    yield row("every option and preset: logits", len(options), LIMIT, largest=worst)


def generated(model: Any, sources: Sequence[list[int]], most: int | None = None) -> Any:
    return unpadded(greedy(model, pad(sources), most))


def unpadded(found: Tensor) -> list[list[int]]:
    return [[token for token in tokens if token] for tokens in found.tolist()]


def largest_gap(
    engine: Engine, model: Any, pairs: Any, off: Any = None, *, relative: bool = False
) -> tuple[float, float]:
    """Returns the largest difference to float64's logits: the engine's, and PyTorch's float32's."""
    exact = copy.deepcopy(model).double()
    gaps = [(0.0, 0.0)]
    for (source, target), ours in zip(pairs, engine.logits(pairs, off), strict=True):
        tokens = torch.tensor([source])
        mask = padding_mask(tokens)
        mask[..., (off or {}).get("hidden", [])] = False
        with torch.inference_mode():
            single, double = (
                each(tokens, torch.tensor([target]), source_mask=mask)[0] for each in (model, exact)
            )
        size = float(double.abs().max()) if relative else 1.0
        gaps.append(tuple(float((each - double).abs().max()) / size for each in (ours, single)))
    return tuple(map(max, zip(*gaps, strict=True)))


def largest_trace_gap(engine: Engine, name: str, pairs: Any) -> float:
    """Returns the largest difference between the engine's trace and that of plain.py."""
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
    """Returns what hooks on plain.py's modules see, under the engine's names."""
    outputs: dict[str, Tensor] = {}
    inputs: dict[str, Tensor] = {}

    def keep(name: str, _: Any, given: Any, output: Tensor) -> None:
        outputs[name], inputs[name] = output[0], given[0][0]

    with ExitStack() as hooks, torch.inference_mode():
        for name, module in model.named_modules():
            hooks.enter_context(module.register_forward_hook(partial(keep, name)))
        model(torch.tensor([source]), torch.tensor([target]))
    found = {"memory": outputs["encoder_norm"], "decoder.last": outputs["decoder_norm"]}
    root, split = model.source_embedding.embedding_dim**0.5, model.encoder[0].self_attention.split
    for half, side, first in (("encoder", "source", "attention"), ("decoder", "target", "self")):
        found[f"{half}.rows"] = outputs[f"{side}_embedding"] * root
        found[f"{half}.input"] = inputs[f"{half}.0.{first}_norm"]
    norms = [path for path in outputs if path.endswith("_norm")]
    for path, following in pairwise(norms):  # the next norm reads the sum
        part = path.removesuffix("_norm")
        if part != "encoder":
            found |= {f"{part}.before": inputs[path], f"{part}.sum": inputs[following]}
            found[path] = outputs[path]
    for path, numbers in outputs.items():
        module, _, part = path.rpartition(".")
        name = module.removesuffix("_attention")
        to_itself = name.endswith("self")
        if part in ("query", "output", "expand", "contract", *("key", "value") * to_itself):
            found[f"{name}.{part}"] = numbers.relu() if part == "expand" else numbers
        if part == "output":
            heads = [split(outputs[f"{module}.{part}"][None])[0] for part in ("query", "key")]
            causal = to_itself and name.startswith("decoder")
            found[f"{name}.heads"] = inputs[path]
            found[f"{name}.weights"] = weights_of(*heads, causal)
    return {name: numbers.flatten() for name, numbers in found.items()}


def weights_of(queries: Tensor, keys: Tensor, causal: bool) -> Tensor:
    """Returns attention weights query by query; if `causal`, only those of the keys so far."""
    scores = queries @ keys.transpose(-2, -1) / queries.shape[-1] ** 0.5
    seen = torch.ones_like(scores, dtype=torch.bool).tril(0 if causal else keys.shape[1])
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    return weights.transpose(0, 1)[seen.transpose(0, 1)]

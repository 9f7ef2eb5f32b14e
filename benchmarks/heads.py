"""Heads of the shipped models removed, one at a time: what chapter 12 shows.

Example: python benchmarks/heads.py --repeats

Writes heads.json among the records: of each model, whole and without each of its heads, BLEU on the
validation set (UNMASKED_DATA, or the network), greedily; and how probable a difference as large
would be by chance (paired bootstrap). A head is removed by zeros in its block of W_O.

With --repeats it writes repeats.json: the heads of cross-attention, removed by zeros and by their
mean, and how many translations repeat a word. By its mean: what the head adds is then the same
everywhere, as much as it adds on average over what the decoder reads of the eighty captions.

One claim is tested, and this was written before the run: without the follower, FOLLOWER, more
translations repeat a word. The head was chosen on the captions, where it looks at the word just
translated more than any other; so was the claim. Which words count was fixed then (`has_repeats`,
five letters or more; English has one possessive as long, "their", which is left out like the German
ones). Of the sentences in which just one of the two models repeats a word, that should be the one
without the head: a sign test, in both directions. With two models and two ways there are four
tests, so p must be below 0.05 / 4 = 0.0125. The claim is confirmed for a model if both ways pass.
Beside it, for all heads alike and without any list: "beyond", translations in which a word of five
letters or more occurs at least twice, and more often than in the reference.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from command import command
from translation import pairs_of
from unmasked.evaluation import bleu, paired_bootstrap
from unmasked.machine import machine
from unmasked.transformer import Transformer
from unmasked.translator import Translator, load, shipped_models
from unmasked_book.ablation import Head, attentions, without
from unmasked_book.captions import caption_pairs
from unmasked_book.inside import batch_of, has_repeats, long_words
from unmasked_book.records import record

SPLIT = "val"
FOLLOWER = ("cross", 0, 3)  # the head of both models that the claim is about, counted from 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", action="store_true", help="cross-attention, and repetitions")
    repeats = parser.parse_args().repeats
    measure = without_cross_heads if repeats else every_head
    result = {
        "machine": {**machine("cpu"), "command": command(__file__)},
        "split": SPLIT,
        "models": {name: measure(load(name)) for name in shipped_models()},
    }
    print(f"recorded in {record('repeats' if repeats else 'heads', result)}")


def every_head(whole: Translator) -> dict[str, Any]:
    """By kind: what is lost without each head, [layers][heads]."""
    sources, references = zip(*pairs_of(whole, SPLIT), strict=True)
    written = whole.translate(sources)
    rows: dict[str, list[list[dict[str, float]]]] = {}
    for (kind, layer), attention in tqdm(attentions(whole.model).items(), unit="layer"):
        rows.setdefault(kind, []).append([])
        for head in range(attention.n_heads):
            model = without(whole.model, heads=[(kind, layer, head)])
            found = with_model(whole, model).translate(sources)
            p = paired_bootstrap(written, found, references).p
            row = {"bleu": round(bleu(found, references).score, 2), "p": round(p, 3)}
            rows[kind][-1].append(row)
    return {"whole": {"bleu": round(bleu(written, references).score, 2)}, "without": rows}


def without_cross_heads(whole: Translator) -> dict[str, Any]:
    """By way: what each translation repeats without a head of cross-attention, [layers][heads]."""
    sources, references = zip(*pairs_of(whole, SPLIT), strict=True)
    written, means = whole.translate(sources), mean_outputs(whole)
    rows: dict[str, list[list[dict[str, Any]]]] = {"zero": [], "mean": []}
    for layer, mean in enumerate(tqdm(means, unit="layer")):
        for row in rows.values():
            row.append([])
        for head in range(whole.model.config.n_heads):
            at = ("cross", layer, head)
            for way, model in (
                ("zero", without(whole.model, heads=[at])),
                ("mean", averaged(whole.model, at, mean)),
            ):
                found = with_model(whole, model).translate(sources)
                rows[way][-1].append(beside(written, found, references))
    return {"sentences": len(sources), "whole": scores(written, references), **rows}


def with_model(translator: Translator, model: Transformer) -> Translator:
    return Translator(model, translator.source, translator.target, translator.about)


def mean_outputs(translator: Translator) -> list[Tensor]:
    """What the heads of each cross-attention give on average, side by side: [D] a layer."""
    read = batch_of(translator, caption_pairs(translator))
    heard: list[Tensor] = []
    decoder: Any = translator.model.decoder
    hooks = [
        layer.cross_attention.output.register_forward_pre_hook(
            lambda _module, given: heard.append(given[0][read.inputs != 0].mean(0))
        )
        for layer in decoder.layers
    ]
    with torch.no_grad():
        translator.model(read.source, read.inputs)
    for hook in hooks:
        hook.remove()
    return heard


def averaged(model: Transformer, head: Head, mean: Tensor) -> Transformer:
    """A copy in which this head always gives its mean."""
    kind, layer, number = head
    before, smaller = attentions(model)[kind, layer], without(model, heads=[head])
    width = before.d_model // before.n_heads
    block = slice(number * width, (number + 1) * width)
    output = attentions(smaller)[kind, layer].output
    with torch.no_grad():
        output.bias.add_(before.output.weight[:, block] @ mean[block])
    return smaller


def beside(
    written: Sequence[str], found: Sequence[str], references: Sequence[str]
) -> dict[str, Any]:
    """Scores, and the sentences in which only the one without a head repeats a word, or only the
    whole model."""
    more, less = 0, 0
    for before, after in zip(map(has_repeats, written), map(has_repeats, found), strict=True):
        more, less = more + (after > before), less + (after < before)
    changes = {"more": more, "less": less, "p": sign_test(more, less)}
    return {**scores(found, references), **changes}


def scores(written: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    return {
        "bleu": round(bleu(written, references).score, 2),
        "repeats": sum(map(has_repeats, written)),
        "beyond": sum(map(beyond, written, references)),
    }


def beyond(text: str, reference: str) -> bool:
    expected = Counter(long_words(reference))
    return any(n > max(1, expected[word]) for word, n in Counter(long_words(text)).items())


def sign_test(more: int, less: int) -> float:
    """How often fair coins would fall as unevenly, in both directions."""
    n, most = more + less, max(more, less)
    tail = sum(math.comb(n, k) for k in range(most, n + 1)) / 2**n
    return float(f"{min(1.0, 2 * tail):.2g}")


if __name__ == "__main__":
    main()

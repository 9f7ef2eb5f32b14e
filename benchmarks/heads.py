"""Every single head of the shipped models switched off: what chapter 12 shows.

Example: python benchmarks/heads.py

Writes heads.json among the records: of each model, whole and without each of its heads, the
cross-entropy and the greedy BLEU on the validation set (UNMASKED_DATA, or the network); and how
probable a difference in BLEU as large as a head makes would be by chance (paired bootstrap).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from command import command
from translation import pairs_of
from unmasked.evaluation import bleu, mean_cross_entropy, paired_bootstrap
from unmasked.machine import machine
from unmasked.translator import Translator, load, shipped_models
from unmasked_book.ablation import attentions, without
from unmasked_book.records import record

SPLIT = "val"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    found = {name: every_head(name) for name in shipped_models()}
    result = {
        "machine": {**machine("cpu"), "command": command(__file__)},
        "split": SPLIT,
        "models": found,
    }
    print(f"recorded in {record('heads', result)}")


def every_head(name: str) -> dict[str, Any]:
    """By kind: what is lost without each head, [layers][heads]."""
    whole = load(name)
    pairs = pairs_of(whole, SPLIT)
    sources, references = zip(*pairs, strict=True)
    places = attentions(whole.model)
    written = whole.translate(sources)
    rows: dict[str, list[list[dict[str, float]]]] = {}
    for kind, layer in tqdm(places, desc=name, unit="layer"):
        rows.setdefault(kind, []).append([])
        for head in range(places[kind, layer].n_heads):
            model = without(whole.model, heads=[(kind, layer, head)])
            one = Translator(model, whole.source, whole.target, whole.about)
            found = one.translate(sources)
            p = paired_bootstrap(written, found, references).p
            rows[kind][-1].append({**scores(one, pairs, found), "p": round(p, 3)})
    return {"whole": scores(whole, pairs, written), "without": rows}


def scores(
    translator: Translator, pairs: Sequence[tuple[str, str]], written: Sequence[str]
) -> dict[str, float]:
    references = [target for _, target in pairs]
    return {
        "cross-entropy": round(mean_cross_entropy(translator.model, translator.corpus(pairs)), 4),
        "bleu": round(bleu(written, references).score, 2),
    }


if __name__ == "__main__":
    main()

"""Measures our package beside its peers in one process, and prints the table.

Example: python benchmarks/run.py --only train-256 greedy-256 --threads 1
"""

import argparse
import warnings
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from statistics import quantiles
from typing import Any, NamedTuple

import torch
import transformers

from ctranslate import CTranslate2
from peers import Marian, Ours, Torch, ragged, sizes, training_step
from timing import Run, command, interleaved, say
from unmasked import TransformerConfig
from unmasked.machine import machine
from unmasked_book.records import record

PEERS = ("transformers", "ctranslate2")
SMALL, BASE = sizes(256, 4, 3, 1024), sizes(512, 8, 6, 2048)
NEW_TOKENS = 64
Trained = dict[str, tuple[Any, ...]]  # each one's class, options of its loss, autocast's dtype
TRAINED: Trained = {
    "unmasked": (Ours, {}, None), "unmasked, packed": (Ours, {"packed": True}, None),
    "nn.Transformer": (Torch, {}, None), "MarianMT": (Marian, {}, None),
}  # fmt: skip
HALVES: Trained = {
    "unmasked, bfloat16": (Ours, {}, torch.bfloat16), "unmasked, float32": (Ours, {}, None),
    "nn.Transformer, bfloat16": (Torch, {}, torch.bfloat16),
}  # fmt: skip
SEARCHED: dict[str, Any] = {"MarianMT": Marian, "nn.Transformer, recomputing": Torch}


class Work(NamedTuple):
    title: str
    rounds: int
    prepare: Callable[[], dict[str, Run]]  # the contestants, ours first


def training(config: TransformerConfig, rows: int, longest: int, peers: Trained) -> dict[str, Run]:
    source, target = (ragged(rows, n) for n in (longest, longest + 1))
    contestants = {}
    for name, (peer, options, dtype) in peers.items():
        loss = partial((model := peer(config)).loss, source, target, **options)
        contestants[name] = training_step(model, loss, dtype)
    return contestants


def searching(
    config: TransformerConfig, rows: int, width: int, others: Collection[str]
) -> dict[str, Run]:
    source, ours = ragged(rows, 24), Ours(config).eval()
    contestants: dict[str, Run] = {"unmasked": partial(ours.search, source, width, NEW_TOKENS)}
    for name in others:
        same = name == "CTranslate2"
        model = CTranslate2(ours.model) if same else SEARCHED[name](config).eval()
        contestants[name] = partial(model.search, source, width, NEW_TOKENS)
    if "CTranslate2" in others:
        agree(contestants["unmasked"](), contestants["CTranslate2"]())
    return contestants


def agree(ours: Any, theirs: Any) -> None:
    """Raises SystemExit if the same weights write other tokens, but for ties in rounding."""
    mine = [[str(token) for token in row if token] for row in ours.flatten(1).tolist()]
    if (different := sum(a != b for a, b in zip(mine, theirs, strict=True))) > len(mine) // 32:
        raise SystemExit(f"CTranslate2: {different} of {len(mine)} sentences differ")


def search(config: TransformerConfig, rows: int, width: int, rounds: int, *others: str) -> Work:
    what = "one sentence" if rows == 1 else f"batch {rows}"
    if "CTranslate2" in others:
        config, what = replace(config, norm="pre"), f"{what}, beside C++"
    model = f"d={config.d_model}, {config.n_layers}+{config.n_layers} layers"
    how = "greedy" if width == 1 else f"beam {width}"
    title = f"{how}, {model}, {what}, {NEW_TOKENS} new tokens"
    return Work(title, rounds, partial(searching, config, rows, width, others))


WORKS = {
    "train-256": Work("training step, d=256, batch 64 × 24, ragged", 15,
                      partial(training, SMALL, 64, 24, TRAINED)),
    "train-512": Work("training step, d=512, 6+6 layers, batch 16 × 32, ragged", 9,
                      partial(training, BASE, 16, 32, TRAINED)),
    "bfloat16": Work("training step under bfloat16 autocast, d=256, batch 64 × 24", 15,
                     partial(training, SMALL, 64, 24, HALVES)),
    "greedy-256": search(SMALL, 32, 1, 7, *SEARCHED),
    "greedy-512": search(BASE, 32, 1, 5, "MarianMT"),
    "greedy-one": search(SMALL, 1, 1, 21, "MarianMT"),
    "beam-256": search(SMALL, 32, 5, 7, "MarianMT"),
    "beam-512": search(BASE, 32, 5, 3, "MarianMT"),
    "c-greedy-256": search(SMALL, 32, 1, 15, "CTranslate2"),
    "c-greedy-512": search(BASE, 32, 1, 9, "CTranslate2"),
    "c-one-256": search(SMALL, 1, 1, 41, "CTranslate2"),
    "c-one-512": search(BASE, 1, 1, 21, "CTranslate2"),
    "c-beam-256": search(SMALL, 32, 5, 7, "CTranslate2"),
    "c-beam-512": search(BASE, 32, 5, 5, "CTranslate2"),
}  # fmt: skip


def measured(name: str, work: Work) -> tuple[dict[str, Any], list[str]]:
    """Returns what is recorded, and the rows of the table."""
    torch.manual_seed(0)
    times = interleaved(work.prepare(), work.rounds, "cpu")
    first, *_ = times.seconds
    found, rows = {}, []
    for who, seconds in times.seconds.items():
        found[who] = {"median": times.median(who), "seconds": seconds}
        low, middle, high = quantiles(times.ratios(first, who), n=4, method="inclusive")
        ratio = f"{middle:.2f} ({low:.2f}–{high:.2f})"
        rows.append(f"| {work.title} | {who} | {1000 * times.median(who):.1f} ms | {ratio} |")
    return {"name": name, "title": work.title, "times": found}, rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=WORKS, metavar="WORK", help=", ".join(WORKS))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--record", metavar="NAME", help="also write NAME.json among the records")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore")  # what the peers say about themselves
    transformers.logging.set_verbosity_error()
    about = {**machine("cpu"), "command": command(), **{name: version(name) for name in PEERS}}
    table = ["| work | who | median | time divided by the first row's |", "|---|---|--:|--:|"]
    works = []
    slow = set() if torch.ops.mkldnn._is_mkldnn_bf16_supported() else {"bfloat16"}
    for name in options.only or [name for name in WORKS if name not in slow]:
        say(WORKS[name].title)
        work, rows = measured(name, WORKS[name])
        works.append(work)
        table += rows
    print(about, *table, sep="\n")
    if options.record:
        say(f"recorded in {record(options.record, {'machine': about, 'works': works})}")


if __name__ == "__main__":
    main()

"""One forward beside version 0.3.0, which had its decoder twice: processor times, in pairs.

Each round does the same work with both packages and once more with the older, in a random order: a
round's ratio is theirs by ours, and the older's by its own second is the control. In this process,
one thread. The older package is what commit 924e888 has under `src/unmasked`.
"""

# mypy: ignore-errors
import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

import unmasked
from command import command, say
from unmasked.machine import machine
from unmasked_book.records import RECORDS

BEFORE = "924e888"
DRAWS = torch.Generator().manual_seed(1)


def older(folder):
    archive = subprocess.run(["git", "archive", BEFORE, "src/unmasked"], stdout=-1, check=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    Path(folder, "src/unmasked").rename(Path(folder, "src/unmasked_before"))
    sys.path.insert(0, f"{folder}/src")
    return import_module("unmasked_before")


def models(size, inner, packages):
    torch.manual_seed(0)
    made = []
    for package in packages:
        kept = unmasked.load("de-en").model
        sizes = {"source_vocab": 8000, "target_vocab": 8000, "tie_embeddings": True}
        options = vars(kept.config) if size == "small" else sizes
        model = package.Transformer(package.TransformerConfig(**options | {"inner_dropout": inner}))
        model.load_state_dict(kept.state_dict() if size == "small" else
                              (made[0] if made else model).state_dict())  # fmt: skip
        made.append(model.eval())
    return made


def sentences(n, low=8, high=20):
    tokens = torch.zeros(n, high + 1, dtype=torch.long)
    for row in tokens:
        length = int(torch.randint(low, high + 1, (), generator=DRAWS))
        row[:length] = torch.randint(4, 8000, (length,), generator=DRAWS)
        row[length] = 2
    return tokens


def works(size, packages):
    """Each a name and, for both packages, what is done."""
    pair = models(size, 0.0, packages)
    one, many, beams = sentences(1, 12, 12), sentences(32), sentences(16)
    for name, times, call in (
        ("greedy, one sentence", 8, lambda p, m: p.greedy(m, one, 20)),
        ("beam of five, one sentence", 8, lambda p, m: p.beam(m, one, 5, 20).tokens),
        ("greedy, 32 sentences", 2, lambda p, m: p.greedy(m, many, 24)),
        ("beam of five, 16 sentences", 1, lambda p, m: p.beam(m, beams, 5, 24).tokens),
    ):
        yield (
            name,
            times if size == "small" else 1,
            [lambda p=p, m=m, call=call: call(p, m) for p, m in zip(packages, pair, strict=True)],
        )
    n = 64 if size == "small" else 16
    source, target = sentences(n), torch.cat([torch.ones(n, 1, dtype=torch.long), sentences(n)], 1)
    for inner in (0.0, 0.1):
        pair = [model.train() for model in models(size, inner, packages)]

        def step(package, model, packed):
            model.zero_grad()
            torch.manual_seed(0)
            loss = import_module(f"{package.__name__}.loss").translation_loss
            value = loss(model, source, target, smoothing=0.1, packed=packed)
            value.backward()
            return value.detach()

        for packed in (False, True):
            name = f"training step{', packed' * packed}, inner dropout {inner}"
            yield (
                name,
                1,
                [
                    lambda p=p, m=m, packed=packed: step(p, m, packed)
                    for p, m in zip(packages, pair, strict=True)
                ],
            )


def measured(calls, times, rounds):
    def took(call):
        start = time.process_time()
        for _ in range(times):
            result = call()
        return (time.process_time() - start) / times, result

    seconds = {"before": [], "now": [], "before again": []}
    equal = [torch.equal(took(calls[0])[1], took(calls[1])[1])]
    for number in range(rounds):
        order = [("before", calls[0]), ("now", calls[1]), ("before again", calls[0])]
        random.Random(number).shuffle(order)
        for name, call in order:
            seconds[name].append(took(call)[0])
    return {"seconds": seconds, "equal": all(equal)}


def interval(ratios):
    draws = np.random.default_rng(0).choice(ratios, (4000, len(ratios)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return [float(np.median(ratios)), float(low), float(high)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--record")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        packages = [older(folder), unmasked]
        for size in ("small", "base"):
            for name, times, calls in works(size, packages):
                row = {"size": size, "work": name, **measured(calls, times, options.rounds)}
                before, now, again = (np.array(x) for x in row["seconds"].values())
                row |= {"speed": interval(before / now), "control": interval(before / again)}
                said = [f"{x:.2f} ({a:.2f}–{b:.2f})" for x, a, b in (row["speed"], row["control"])]
                say(f"{size}, {name}: {said[0]}, control {said[1]}, equal {row['equal']}")
                rows.append(row)
    about = {**machine("cpu"), "command": command()}
    if options.record:
        text = json.dumps({"machine": about, "before": BEFORE, "rows": rows}, indent=1)
        Path(RECORDS, f"{options.record}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

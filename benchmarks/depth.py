"""Trains deep stacks: two draws of the weights, three places of the norm, warm-up or none.

Example: python benchmarks/depth.py --processes 2

Writes depth.json, row by row, and leaves out what stands there. Every run has one thread, so that
its numbers do not depend on how many run beside it. A row is a cell of the grid with one of its
rates, and holds three seeds. A cell has learned if its best rate names at least 95% of new words'
letters on average over its seeds; of rates that are level the one with the lowest last loss counts.
"""

import argparse
import time
from itertools import product
from multiprocessing import get_context
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from timing import command
from unmasked.machine import machine
from unmasked.plain import positions
from unmasked_book.experiments.depth import AS_DRAWN, KINDS, Kind, stack
from unmasked_book.records import RECORDS, record, recorded

RATES, STEPS, SEEDS, LETTERS, WIDTH = (1e-4, 3e-4, 1e-3, 3e-3), 600, 3, 26, 64
WARM_UP, NONE = 100, 1  # steps
DRAWN, BARE = (*AS_DRAWN[:3], *KINDS[:3]), (*AS_DRAWN[3:], *KINDS[3:])
GRID = [*product((2, 12), DRAWN, (WARM_UP, NONE), RATES),
        *product((24,), DRAWN, (WARM_UP, NONE), RATES[1:]),  # the lowest was best nowhere above
        *product((2, 12), BARE, (WARM_UP,), RATES[1:])]  # fmt: skip


class Mirror(nn.Module):
    """A Mirror names, at each of six positions, the letter as far from the other end."""

    def __init__(self, layers: int, kind: Kind, seed: int) -> None:
        super().__init__()
        self.encoder = stack(layers, kind, seed=seed)
        self.letters, self.scores = nn.Embedding(LETTERS, WIDTH), nn.Linear(WIDTH, LETTERS)

    def forward(self, letters: Tensor) -> Tensor:
        x = self.letters(letters) + positions(6, WIDTH).float()
        return self.scores(self.encoder(x))


def train(layers: int, kind: Kind, warm_up: int, rate: float, seed: int) -> tuple[Any, ...]:
    """Returns the share of new letters that are right, and the losses, means of twenty steps."""
    draws = torch.Generator().manual_seed(seed)
    model = Mirror(layers, kind, seed)
    optimizer = torch.optim.Adam(model.parameters(), rate, fused=True)  # but for the first 92 rows
    losses = []
    for step in range(1, STEPS + 1):
        letters = torch.randint(LETTERS, (32, 6), generator=draws)
        loss = F.cross_entropy(model(letters).mT, letters.flip(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = rate * min(1.0, step / warm_up)
        optimizer.step()
        losses.append(loss.item())
    unseen = torch.randint(LETTERS, (500, 6), generator=torch.Generator().manual_seed(10**4 + seed))
    with torch.no_grad():
        right = (model(unseen).argmax(-1) == unseen.flip(1)).float().mean().item()
    means = torch.tensor(losses).view(-1, 20).mean(1).tolist()
    return round(right, 4), [round(loss, 4) for loss in means]


def row(work: tuple[int, Kind, int, float]) -> dict[str, Any]:
    layers, kind, warm_up, rate = work
    rights, losses = zip(*(train(*work, seed) for seed in range(SEEDS)), strict=True)
    return {"layers": layers, "kind": str(kind), "warm-up": warm_up, "rate": rate,
            "right": rights, "losses": losses}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=1, help="runs side by side (1)")
    options = parser.parse_args()
    rows = recorded("depth")["rows"] if (RECORDS / "depth.json").exists() else []
    done = {(r["layers"], r["kind"], r["warm-up"], r["rate"]) for r in rows}
    missing = [work for work in GRID if (work[0], str(work[1]), *work[2:]) not in done]
    about = {**machine("cpu"), "threads": 1, "command": command()}
    began = time.perf_counter()
    with get_context("spawn").Pool(options.processes, torch.set_num_threads, (1,)) as pool:
        for each in tqdm(pool.imap(row, missing), total=len(missing), unit="row"):
            rows.append(each)
            about["minutes"] = round((time.perf_counter() - began) / 60, 1)
            record("depth", {"machine": about, "rows": rows})


if __name__ == "__main__":
    main()

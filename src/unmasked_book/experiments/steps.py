"""Defines for each step of chapter 16 in which runs of the record steps.json it finds a fault.

A row of the record is one speller with one bug and one seed. The record names the commit in which
its command runs; there each of the 28 bugs changes a line of a sound training.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from unmasked_book.examples import LETTERS

FLOOR = 3.07  # the loss without any source: (6 ln 26 + ln 7) / 7
SHARE = 0.5  # of new words that must be right in step 7

# True where a step finds something. The limits were fixed before the measurements, except for one:
# step 7 first asked for a single word that is right. A speller without positions, with 4% of its
# words right, passed it; so it asks for half.
STEPS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "2. check": lambda m: bool(m["faults"]),
    "3. first loss": lambda m: not -0.1 < m["start"] - math.log(LETTERS) < 1,
    "4. by heart": lambda m: not m["by heart"] < 0.1,
    "5. baseline": lambda m: not m["new words"] < FLOOR / 2,
    "6. swap": lambda m: not m["another source"] - m["own source"] > 1,
    "7. generate": lambda m: not (m["unaided"] >= SHARE and near(m["unaided"], m["given"])),
    "7. other widths": lambda m: not (near(m["unaided, wider"], m["given"])
                                      and near(m["unaided, one by one"], m["given"])),
    "a plain loop": lambda m: m["beside a plain loop"] is None or m["beside a plain loop"] >= 1e-4,
}  # fmt: skip


def near(a: float, b: float) -> bool:
    return abs(a - b) < 0.025  # at most two words of a hundred

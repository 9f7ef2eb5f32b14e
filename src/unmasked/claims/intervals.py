"""What a few trainings say about all that could have been made: a mean, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from ..validation import invalid

# Student's t for 95 %, by the number of values: where 19 of 20 intervals hold the true mean,
# if the values are spread about it like a normal distribution.
T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}


class Interval(NamedTuple):
    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} ({self.low:.3g} to {self.high:.3g})"


def interval(values: Sequence[float]) -> Interval:
    """The mean of 2 to 10 runs, with its 95 % interval."""
    if len(values) not in T:
        fix = "repeat the run with other seeds"
        raise invalid("values", f"{min(T)} to {max(T)} of them", len(values), fix)
    mean, reach = fmean(values), T[len(values)] * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - reach, mean + reach)


def difference(a: Sequence[float], b: Sequence[float]) -> Interval:
    """Of a - b, seed by seed: what both share (the data, its order) cancels out."""
    if len(a) != len(b):
        fix = "compare runs with the same seeds"
        raise invalid("b", f"{len(a)} values", len(b), fix)
    return interval([x - y for x, y in zip(a, b, strict=True)])


def above(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether a is clearly larger than b: all of the interval of a - b is above zero."""
    return difference(a, b).low > 0

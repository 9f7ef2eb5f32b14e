"""Compares trainings: finds their rows in a JSON record, draws means with intervals (ch. 15)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from operator import getitem
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context

from unmasked.plots import Picture, picture
from unmasked.plots.picture import COLOURS, DASHES, GREY, MARKERS, OPEN, in_a_row, panels

# --- Intervals --------------------------------------------------------------------------------

SURE = 0.999  # the share of intervals that hold the true mean, where a difference is called clear


@cache
def student(n: int, share: float) -> float:
    """Returns Student's t for n values, which makes this share of intervals hold the true mean.

    For t = √(n - 1) · tan(angle), the angle's density is proportional to cos(angle)ⁿ⁻².
    """
    angles = np.linspace(0, np.pi / 2, 100_001)
    below = np.cumsum(np.cos((angles[1:] + angles[:-1]) / 2) ** (n - 2))
    angle = np.interp(share * below[-1], below, angles[1:])
    return round(math.sqrt(n - 1) * math.tan(angle), 3)  # as tables have it


class Interval(NamedTuple):
    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} ({self.low:.3g} to {self.high:.3g})"


def interval(values: Sequence[float], share: float = 0.95) -> Interval:
    """Returns the values' mean with its confidence interval, by Student's t: 95%, or `share`."""
    n, mean = len(values), fmean(values)
    reach = student(n, share) * stdev(values) / math.sqrt(n)
    return Interval(mean, mean - reach, mean + reach)


def difference(a: Sequence[float], b: Sequence[float], share: float = 0.95) -> Interval:
    """Returns the interval of the mean a - b, seed by seed, so that data and order cancel out."""
    return interval([x - y for x, y in zip(a, b, strict=True)], share)


def above(a: Sequence[float], b: Sequence[float]) -> bool:
    """Returns True if a's values are clearly larger: the 99.9% interval of a - b is above zero."""
    return difference(a, b, SURE).low > 0


# --- Rows -------------------------------------------------------------------------------------

Rows = Sequence[Mapping[str, Any]]


def row(rows: Rows, **where: Any) -> Mapping[str, Any]:
    """Returns the record's only row whose fields have these values, such as `width=16`."""
    [found] = (each for each in rows if where.items() <= each.items())
    return found


def trials(rows: Rows, measured: str, **where: Any) -> list[float]:
    """Returns a measured number, such as `right`, of each seed's run in the row of `where`."""
    return [trial[measured] for trial in row(rows, **where)["trials"]]


def plus_minus(
    found: Interval, percent: bool, digits: int | None = None, *, signed: bool = False
) -> str:
    """Returns text like `1.5 ± 0.2`, mean and half interval: 1 digit in percent, 3 in nats."""
    form, factor = f".{digits or (1 if percent else 3)}f", 100 if percent else 1
    mean, reach = factor * found.mean, factor * (found.high - found.mean)
    text = f"{mean:{'+' if signed else ''}{form}} ± {reach:{form}}"
    return text.replace("-", "−").replace(" ", "\N{NO-BREAK SPACE}")


class Compared(NamedTuple):
    """A Compared holds two models' results by seed; a claim says that the first are larger."""

    of: str  # what was compared
    case: str
    first: list[float]
    second: list[float]
    percent: bool

    def times_clear(self) -> float:
        """Returns the mean difference over half its 99.9% interval: beyond 1 it is clear."""
        mean, _, high = difference(self.first, self.second, SURE)
        return mean / (high - mean) if high > mean else 0.0


def deciding(record: Mapping[str, Any]) -> Iterator[Compared]:
    """Yields the comparisons in a record's "decided by", on which the claim's verdict rests."""
    for part in record["decided by"]:
        for case, pair in part["cases"].items():
            found = (row(record["rows"], **at)["trials"] for at in pair)
            a, b = ([reduce(getitem, part["measured"], run) for run in runs] for runs in found)
            yield Compared(part["what"], case, a, b, percent=part["unit"] == "points")


# --- Drawn ------------------------------------------------------------------------------------

Runs = Sequence[Sequence[float]]  # for each place on the axis, a value a seed


def intervals(
    lines: Mapping[str, Runs], x: Sequence[str | float], *, xlabel: str, ylabel: str
) -> Picture:
    """Draws a line of means over `x` for each name: dots are runs, bars 95% intervals."""
    words, places = [], np.arange(len(x))
    with rc_context(OPEN):
        figure, [[axis]] = panels(1, 1, 2.9)
        for i, (name, runs) in enumerate(lines.items()):
            found = [interval(values) for values in runs]
            means, lows, highs = (np.array(ends) for ends in zip(*found, strict=True))
            at = places + 0.06 * (i - (len(lines) - 1) / 2)  # beside each other
            for place, values in zip(at, runs, strict=True):
                axis.plot([place] * len(values), values, ".", color=COLOURS[i], alpha=0.35, ms=4)
            axis.errorbar(at, means, (means - lows, highs - means), color=COLOURS[i],
                          marker=MARKERS[i], ms=4.5, lw=1.5, ls=DASHES[i], capsize=3,
                          label=name)  # fmt: skip
            each = ", ".join(f"{v} at {label}" for v, label in zip(found, x, strict=True))
            words.append(f"{name}: {each}")
        axis.set(xlabel=xlabel, ylabel=ylabel)
        axis.set_xticks(places, [str(label) for label in x])
        if len(lines) > 1:
            figure.legend(loc="outside lower center", ncols=in_a_row(lines))
    heading = f"{ylabel} over {xlabel}, means of several runs with 95% intervals"
    return Picture(figure, f"{heading}. {'; '.join(words)}.")


def ladders(tried: Mapping[str, Mapping[str, float]], colours: Mapping[str, int]) -> Picture:
    """Draws each model's mean validation loss over learning rates, with a ring around the lowest.

    Models of one colour differ in their dashes.
    """
    words: list[str] = []
    owned = [colours[name] for name in tried]
    with rc_context(OPEN):
        figure, [[axis]] = panels(1, 1, 2.9)
        for i, (own, (name, losses)) in enumerate(zip(owned, tried.items(), strict=True)):
            rates, values = zip(*sorted((float(r), x) for r, x in losses.items()), strict=True)
            best = min(range(len(rates)), key=values.__getitem__)
            axis.plot(rates, values, color=COLOURS[own], marker=MARKERS[own], ms=4.5, lw=1.5,
                      ls=DASHES[owned[:i].count(own)], label=name)  # fmt: skip
            axis.plot(rates[best], values[best], "o", color=COLOURS[own], mfc="none", ms=12)
            each = ", ".join(f"{x:.3g} at {r:g}" for r, x in zip(rates, values, strict=True))
            words.append(f"{name}: {each}, the best {rates[best]:g}")
        every = sorted({float(rate) for losses in tried.values() for rate in losses})
        axis.set(xlabel="learning rate", ylabel="validation cross-entropy", xscale="log",
                 yscale="log")  # fmt: skip
        axis.set_xticks(every, [f"{rate:g}" for rate in every])
        picture.few_powers(axis.yaxis)
        axis.minorticks_off()
        axis.margins(y=0.12)  # space for the rings
        figure.legend(loc="outside lower center", ncols=in_a_row(tried))
    return Picture(figure, f"Validation cross-entropy over learning rate. {'; '.join(words)}.")


def forest(rows: Mapping[str, Sequence[Compared]], said: Sequence[str]) -> Picture:
    """Draws a row for each name: its comparison as a dot and a bar, and a remark from `said`.

    The dot is the mean difference in halves of its own 99.9% interval, which is the bar: so units
    do not matter, and within the grey band it is not clear.
    """
    words, size = [], 8
    with rc_context({**OPEN, "font.size": size}):
        figure, [[axis]] = panels(1, 1, 0.8 + 0.022 * size * len(rows))
        for place, ((name, [compared]), remark) in enumerate(zip(rows.items(), said, strict=True)):
            x = compared.times_clear()
            if x:
                axis.plot([x - 1, x + 1], [place] * 2, color=GREY, lw=1.2)
            inside = COLOURS[0] if abs(x) > 1 else "white"
            axis.plot(x, place, "o", color=COLOURS[0], mfc=inside, ms=5, clip_on=False)
            axis.text(1.04, place, remark, transform=axis.get_yaxis_transform(), va="center")
            words.append(f"{name}: {x:.2g}, {remark}")
        axis.axvspan(-1, 1, color=GREY, alpha=0.15, lw=0)
        axis.axvline(0, color=GREY, lw=1, ls=":")
        axis.set_yticks(range(len(rows)), list(rows))
        axis.set(xscale="symlog", xlim=(-10, 60), ylim=(len(rows) - 0.4, -0.6))
        axis.set_xticks([-10, -1, 0, 1, 10], ["−10", "−1", "0", "1", "10"])
        axis.minorticks_off()
        axis.tick_params(axis="y", length=0)
        axis.spines.left.set_visible(False)
        measure = "difference, in halves of its 99.9% interval; right of zero, for the claim"
        figure.supxlabel(measure, fontsize=size)
    return Picture(figure, f"Differences in halves of their 99.9% intervals. {'; '.join(words)}.")

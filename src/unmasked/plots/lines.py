"""Draws line charts and bar charts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from torch import Tensor

from .picture import COLOURS, DASHES, GREY, OPEN, Picture, few_powers, in_a_row, number, panels


def bars(
    series: Mapping[str, Sequence[float]],
    names: Sequence[str],
    *,
    xlabel: str,
    title: str = "",
    digits: int = 2,
    most: float | None = None,
) -> Picture:
    """Draws horizontal bars with their values, a group for each name, on an axis up to `most`."""
    words = []
    thick = 0.8 / max(1, len(series))
    with rc_context(OPEN):
        height = 0.8 + len(names) * (0.16 + 0.17 * len(series))
        figure, [[axis]] = panels(1, 1, height)
        for i, (label, values) in enumerate(series.items()):
            places = np.arange(len(names)) + (i - (len(series) - 1) / 2) * thick
            drawn = axis.barh(places, values, thick, color=COLOURS[i % 6], label=label)
            axis.bar_label(drawn, fmt=f"{{:.{digits}f}}", padding=3, color=GREY, fontsize=9)
            each = ", ".join(f"{n} {v:.{digits}f}" for n, v in zip(names, values, strict=True))
            words.append(f"{label}: {each}")
        axis.set_yticks(range(len(names)), names)
        axis.set(xlabel=xlabel, title=title)
        axis.invert_yaxis()
        axis.margins(x=0.12)
        if most is not None:
            axis.set_xlim(0, most)
        axis.tick_params(axis="y", length=0)
        if len(series) > 1:
            figure.legend(loc="outside lower center", ncols=len(series))
    heading = f"{title}. " if title else ""
    return Picture(figure, f"{heading}Bars of {xlabel}. {'; '.join(words)}.")


FEW = 8  # up to so many places on the lower axis, each is named


def curves(
    lines: Mapping[str, Any],
    x: Sequence[float] | Tensor | np.ndarray | None = None,
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
    mark: tuple[float, str] | None = None,
    low: float | None = None,
    height: float = 2.9,
    colours: Mapping[str, int] | None = None,
) -> Picture:
    """Draws named lines over the values x; where a line's value is NaN, it has no point.

    `mark` is (x, label) of a vertical line, and `low` is where the vertical axis begins.
    `colours` maps line names to indices in `COLOURS`, so that several figures look alike.
    """
    words = []
    with rc_context(OPEN):
        figure, [[axis]] = panels(1, 1, height)
        for i, (name, values) in enumerate(lines.items()):
            ys = np.asarray(values, dtype=float)
            xs = np.arange(len(ys)) if x is None else np.asarray(x, dtype=float)
            own = (colours or {}).get(name, i) % len(COLOURS)
            at, ys = xs[~np.isnan(ys)], ys[~np.isnan(ys)]
            axis.plot(at, ys, color=COLOURS[own], linestyle=DASHES[own], label=name, lw=1.8)
            words.append(
                f"{name} goes from {number(ys[0])} at {number(at[0])} to {number(ys[-1])} at "
                f"{number(at[-1])}, lowest {number(ys.min())}, highest {number(ys.max())}"
            )
        if mark:
            at, label = mark
            axis.axvline(at, color=GREY, lw=1, ls=(0, (2, 2)))
            place = axis.get_xaxis_transform()
            axis.text(at, 0.99, f" {label}", color=GREY, va="top", transform=place)
            words.append(f"a vertical line at {number(at)}: {label}")
        axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
        axis.set_xscale("log" if log_x else "linear")
        if log_x and len(xs) <= FEW:
            axis.set_xticks(xs, [number(place) for place in xs])
            axis.minorticks_off()
        elif not log_x and len(xs) <= FEW and np.array_equal(xs, xs.round()):
            axis.set_xticks(xs)
        axis.set_yscale("log" if log_y else "linear")
        if log_y:
            few_powers(axis.yaxis)
        axis.margins(x=0.01, y=0.15 if mark else 0.05)  # space for what the mark says
        axis.set_ylim(bottom=low)
        figure.legend(loc="outside lower center", ncols=in_a_row(lines))
    heading = f"{title}. " if title else ""
    return Picture(figure, f"{heading}{ylabel} over {xlabel}. {'; '.join(words)}.")

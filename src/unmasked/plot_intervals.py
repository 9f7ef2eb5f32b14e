"""Means of several runs with their intervals, and the runs themselves, as dots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import rc_context

from .claims.intervals import interval
from .picture import COLOURS, DASHES, STYLE, Picture, panels
from .plot_speed import MARKERS
from .validation import invalid

Runs = Sequence[Sequence[float]]  # for each place on the axis, a value a seed


def intervals(
    panels_: Mapping[str, Mapping[str, Runs]],
    x: Sequence[str | float],
    *,
    xlabel: str,
    ylabel: str,
    log_y: bool = False,
    height: float = 2.9,
) -> Picture:
    """Panels side by side, each with lines over the same places; bars show 95 % intervals."""
    words, places = [], np.arange(len(x))
    with rc_context(STYLE):
        figure, [axes] = panels(1, len(panels_), height)
        for (title, lines), axis in zip(panels_.items(), axes, strict=True):
            for i, (name, runs) in enumerate(lines.items()):
                if len(runs) != len(x):
                    fix = "give a list of runs for each place"
                    raise invalid(name, f"{len(x)} lists", len(runs), fix)
                found = [interval(values) for values in runs]
                means = [each.mean for each in found]
                reach = [each.high - each.mean for each in found]
                at = places + 0.06 * (i - (len(lines) - 1) / 2)  # beside each other
                colour, marker = COLOURS[i % 6], MARKERS[i % 6]
                for place, values in zip(at, runs, strict=True):
                    axis.plot([place] * len(values), values, ".", color=colour, alpha=0.35, ms=4)
                axis.errorbar(at, means, reach, color=colour, marker=marker, ms=4.5, lw=1.5,
                              ls=DASHES[i % 6], capsize=3, label=name)  # fmt: skip
                each = ", ".join(f"{v} at {label}" for v, label in zip(found, x, strict=True))
                words.append(f"{title + ', ' if title else ''}{name}: {each}")
            axis.set(xlabel=xlabel, title=title, yscale="log" if log_y else "linear")
            axis.set_xticks(
                places, [f"{label:,}" if isinstance(label, int) else str(label) for label in x]
            )
            axis.spines[["top", "right"]].set_visible(False)
        axes[0].set_ylabel(ylabel)
        handles = axes[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=min(4, len(handles[0])))
    heading = f"{ylabel} over {xlabel}, means of several runs with 95 % intervals"
    return Picture(figure, f"{heading}. {'; '.join(words)}.")

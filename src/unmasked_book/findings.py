"""Draws what `unmasked.check` found in several models: a row per model, a column per property."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.patches import Rectangle

from unmasked.checking.report import CLAIMS
from unmasked.plots.picture import STYLE, Picture, legend, panels

FAULT, SOMETIMES, UNCOUNTED = "fault", "fault with some seeds", "not counted"
HEALTHY, UNASKED = "passed", "not tested"
FILL = {FAULT: "#14639c", SOMETIMES: "#8fbadb", UNCOUNTED: "#f3cf94",
        HEALTHY: "#ffffff", UNASKED: "#e3e7ec"}  # fmt: skip
HATCH = {UNCOUNTED: "////"}
ELEVEN = tuple(CLAIMS)[:11]  # the properties of an encoder-decoder
MEANS = {"note": HEALTHY, "ok": HEALTHY, "not offered": UNASKED}


def findings(verdicts: Mapping[str, Mapping[str, str]], columns: Sequence[str] = ELEVEN) -> Picture:
    """Draws a coloured table of verdicts: a row for each model, a column for each property.

    `verdicts` holds each model's `report.verdicts`. A missing property counts as not tested, a note
    as passed. Call a fault that you can explain "not counted", and one that depends on the weights
    "fault with some seeds". Other tests than those of `unmasked.check` need their own `columns`.
    """
    words, met = [], set[str]()
    with rc_context(STYLE):
        figure, [[axis]] = panels(1, 1, 1.3 + 0.165 * len(verdicts))
        for y, (name, given) in enumerate(verdicts.items()):
            kinds = [MEANS.get(v, v) for v in (given.get(claim, UNASKED) for claim in columns)]
            met.update(kinds)
            for x, kind in enumerate(kinds):
                corner, fill, hatch = (x - 0.5, y - 0.5), FILL[kind], HATCH.get(kind, "")
                cell = Rectangle(corner, 1, 1, fc=fill, hatch=hatch, ec="#b4bcc6", lw=0.5)
                cell.set_clip_on(False)  # else the outer lines are half as wide
                axis.add_patch(cell)
            words.append(f"{name}: {said(columns, kinds)}")
        axis.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(verdicts) - 0.5, -0.5))
        axis.set_yticks(np.arange(len(verdicts)), verdicts)
        axis.set_xticks(np.arange(len(columns)), columns, rotation=90)
        axis.xaxis.tick_top()
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        legend(figure, FILL, HATCH, met)
    return Picture(figure, f"Faults that were found, by model. {'; '.join(words)}.")


def said(columns: Sequence[str], kinds: Sequence[str]) -> str:
    """Returns the columns with a fault, separated by commas, or "none"."""
    told = []
    for kind, begin in ((FAULT, ""), (SOMETIMES, "with some seeds: ")):
        if some := [each for each, its in zip(columns, kinds, strict=True) if its == kind]:
            told.append(begin + ", ".join(some))
    return "; ".join(told) or "none"

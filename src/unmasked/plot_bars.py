"""Numbers as bars, and batches as rows of words and padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from torch import Tensor

from .picture import COLOURS, GREY, STYLE, Picture, matrix, panels
from .plot_masks import FILL, PADDING
from .special import PADDING as PAD_TOKEN
from .validation import invalid

KINDS = {"a word": COLOURS[0], "padding": FILL[PADDING]}


def bars(
    series: Mapping[str, Sequence[float]],
    names: Sequence[str],
    *,
    xlabel: str,
    title: str = "",
    digits: int = 2,
    most: float | None = None,
) -> Picture:
    """Bars from the left, a group for each name; each bar has its number beside it."""
    words = []
    thick = 0.8 / max(1, len(series))
    with rc_context(STYLE):
        height = 0.8 + len(names) * (0.16 + 0.17 * len(series))
        figure, [[axis]] = panels(1, 1, height)
        for i, (label, values) in enumerate(series.items()):
            if len(values) != len(names):
                fix = "give one for each name"
                raise invalid(label, f"{len(names)} values", len(values), fix)
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
        axis.spines[["top", "right"]].set_visible(False)
        if len(series) > 1:
            figure.legend(loc="outside lower center", ncols=len(series))
    heading = f"{title}. " if title else ""
    return Picture(figure, f"{heading}Bars of {xlabel}. {'; '.join(words)}.")


def batches(batches: Mapping[str, Tensor]) -> Picture:
    """Batches of tokens side by side: each row a sentence, what is padding in another colour."""
    words = []
    with rc_context(STYLE):
        figure, axes = panels(1, len(batches), 2.6)
        for (title, tokens), axis in zip(batches.items(), axes[0], strict=True):
            real = matrix(title, tokens) != PAD_TOKEN
            share = f"{100 * (1 - real.mean()):.0f} % padding"
            colormap = ListedColormap(list(KINDS.values()))
            axis.pcolormesh(~real, cmap=colormap, edgecolor="white", linewidth=0.4, vmin=0, vmax=1)
            axis.invert_yaxis()
            axis.set(title=title, xlabel=share, xticks=[], yticks=[])
            words.append(f"{title}: {len(real)} sentences in {real.shape[1]} places, {share}")
        axes[0][0].set_ylabel("sentences")
        handles = [Patch(fc=colour, label=name) for name, colour in KINDS.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return Picture(figure, f"Batches as rows of words and padding. {'; '.join(words)}.")

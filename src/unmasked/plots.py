"""The book's figures, a call each, drawn and described in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from torch import Tensor

from .picture import (
    COLOURS,
    DASHES,
    GREY,
    INK,
    SIGNED,
    STRONG,
    STYLE,
    Labels,
    Picture,
    dress,
    labels,
    matrix,
    number,
    panels,
)
from .plot_bars import bars, batches
from .plot_heads import head_roles
from .plot_intervals import intervals
from .plot_maps import attention_maps, sentence_maps
from .plot_masks import batch_masks, masks
from .plot_speed import measured, roofline
from .plot_tree import beam_tree
from .validation import invalid

__all__ = [
    "attention_maps",
    "bars",
    "batch_masks",
    "batches",
    "beam_tree",
    "curves",
    "head_roles",
    "intervals",
    "masks",
    "matrices",
    "measured",
    "roofline",
    "sentence_maps",
]


def matrices(
    matrices: Mapping[str, Tensor | np.ndarray],
    rows: Labels = None,
    columns: Labels = None,
    *,
    x: str = "",
    y: str = "",
    numbers: bool = False,
    signed: bool = False,
    height: float = 2.6,
) -> Picture:
    """Heat maps side by side: on one scale, or each on its own with `numbers` in the cells.

    `signed` puts zero in the middle of the colours; else they begin at the lowest value.
    """
    arrays = {title: matrix(title, values) for title, values in matrices.items()}
    everything = np.concatenate([array.ravel() for array in arrays.values()])
    words = []
    with rc_context(STYLE):
        figure, axes = panels(1, len(arrays), height)
        for (title, array), axis in zip(arrays.items(), axes[0], strict=True):
            low, high = _scale(array if numbers else everything, signed)
            image = axis.imshow(array, SIGNED if signed else STRONG, vmin=low, vmax=high)
            image.set_interpolation("nearest")
            axis.set_aspect("equal" if rows or columns else "auto")
            dress(axis, title, rows and labels("rows", rows, len(array)), columns, x=x, y=y)
            if numbers:
                _write_numbers(axis, array, low, high, signed)
            least, most = _scale(array, signed=False)
            words.append(
                f"{title}: {array.shape[0]} rows by {array.shape[1]} columns, "
                f"values from {number(least)} to {number(most)}"
            )
        if not numbers:
            figure.colorbar(image, ax=axes[0], shrink=0.9, pad=0.02)
    return Picture(figure, f"Heat map{'s' * (len(words) > 1)}. {'; '.join(words)}.")


def _scale(values: np.ndarray, signed: bool) -> tuple[float, float]:
    """The lowest and highest value that is not infinite; as far from zero, if signed."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    far = max(-low, high)
    return (-far, far) if signed else (low, high)


def _write_numbers(axis: Axes, array: np.ndarray, low: float, high: float, signed: bool) -> None:
    for (row, column), value in np.ndenumerate(array):
        strength = abs(value) / (high or 1) if signed else (value - low) / ((high - low) or 1)
        colour = "white" if np.isfinite(value) and strength > 0.6 else INK
        text = f"{value:.2f}" if np.isfinite(value) else str(value).replace("inf", "∞")
        axis.text(column, row, text, ha="center", va="center", color=colour, fontsize=8.5)


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
    height: float = 2.9,
) -> Picture:
    """Lines over one axis. `mark` draws a vertical line at a place and says what is there."""
    words = []
    with rc_context(STYLE):
        figure, [[axis]] = panels(1, 1, height)
        for i, (name, values) in enumerate(lines.items()):
            ys = np.asarray(values, dtype=float)
            xs = np.arange(len(ys)) if x is None else np.asarray(x, dtype=float)
            if xs.shape != ys.shape:
                fix = "give x and each line the same length"
                raise invalid(name, f"{len(xs)} values", f"shape {list(ys.shape)}", fix)
            axis.plot(xs, ys, color=COLOURS[i % 6], linestyle=DASHES[i % 6], label=name, lw=1.8)
            words.append(
                f"{name} goes from {number(ys[0])} at {number(xs[0])} to {number(ys[-1])} at "
                f"{number(xs[-1])}, lowest {number(ys.min())}, highest {number(ys.max())}"
            )
        if mark:
            axis.axvline(mark[0], color=GREY, lw=1, ls=(0, (2, 2)))
            place = axis.get_xaxis_transform()
            axis.text(mark[0], 0.99, f" {mark[1]}", color=GREY, va="top", transform=place)
            words.append(f"a vertical line at {number(mark[0])}: {mark[1]}")
        axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
        axis.set_xscale("log" if log_x else "linear")
        axis.set_yscale("log" if log_y else "linear")
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.01, y=0.15 if mark else 0.05)  # room for what the mark says
        in_a_row = 4 if sum(map(len, lines)) < 60 else 2
        figure.legend(loc="outside lower center", ncols=min(in_a_row, len(lines)))
    heading = f"{title}. " if title else ""
    return Picture(figure, f"{heading}{ylabel} over {xlabel}. {'; '.join(words)}.")

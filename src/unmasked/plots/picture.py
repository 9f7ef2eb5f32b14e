"""Holds what all figures of the book share: style, colours, layout, and a description in words."""

import io
from collections.abc import Collection, Mapping, Sequence
from math import ceil
from os import PathLike
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter
from torch import Tensor

from ..errors import invalid

PAD = "<pad>"  # the word for padding, whose labels are grey
INK, GREY = "#20262d", "#6b737c"
COLOURS = ["#14639c", "#d1661a", "#2a8a57", "#8c4aa8", "#b0303c", "#5b6570"]
DASHES: list[Any] = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3))]
MARKERS = "os^Dvx"  # like dashes, they help those who cannot tell the colours apart
STRONG = LinearSegmentedColormap.from_list("strong", ["#f7f9fb", "#7fb2d8", "#0d4a78"])
SIGNED = LinearSegmentedColormap.from_list("signed", ["#a8480f", "#f8f8f6", "#0d4a78"])
WIDTH = 6.8  # inches: at 144 dots an inch, sharp in the page's column
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # matplotlib brings it: the same letters everywhere
    "font.size": 10.0,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.edgecolor": "#9aa3ad",
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "hatch.linewidth": 0.8,
    "image.interpolation": "nearest",
    "legend.frameon": False,
    "savefig.dpi": 144,
    "savefig.facecolor": "white",
}
OPEN = {**STYLE, "axes.spines.top": False, "axes.spines.right": False}  # for lines and bars


class Picture:
    """A picture holds a matplotlib figure and its description, `words`, which notebooks test."""

    def __init__(self, figure: Figure, words: str) -> None:
        self.figure, self.words = figure, words

    def save(self, file: str | PathLike[str] | io.BytesIO, **options: Any) -> None:
        """Writes the picture to a file, in the format that its name ends with (PNG if none)."""
        with rc_context(STYLE):
            self.figure.savefig(file, **options)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.save(buffer)
        return buffer.getvalue()

    def __repr__(self) -> str:
        return self.words


Labels = Sequence[str] | None


def panels(rows: int, columns: int, height: float) -> tuple[Figure, list[list[Axes]]]:
    """Makes a figure of the page's width with rows × columns axes, each `height` inches high."""
    figure = Figure(figsize=(WIDTH, height * rows), layout="constrained")
    return figure, [list(line) for line in figure.subplots(rows, columns, squeeze=False)]


def tiles(count: int, per_row: int, height: float) -> tuple[Figure, list[Axes]]:
    """Makes a figure with `count` axes of one shape, at most `per_row` of them side by side."""
    columns = min(per_row, count)
    figure, lines = panels(-(-count // columns), columns, height)
    places = [axis for line in lines for axis in line]
    for axis in places[count:]:
        axis.set_visible(False)
    return figure, places[:count]


def legend(
    figure: Figure, fill: Mapping[str, str], hatch: Mapping[str, str], met: set[str]
) -> None:
    """Adds to the figure a legend of the names in `fill` that are in `met`, by colour and hatch."""
    handles = [
        Patch(fc=colour, hatch=hatch.get(kind, ""), ec=GREY, label=kind)
        for kind, colour in fill.items()
        if kind in met
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def in_a_row(names: Collection[str]) -> int:
    """Returns the number of columns in which a legend of these names has even rows."""
    rows = ceil(len(names) / (4 if sum(map(len, names)) < 60 else 2))
    return ceil(len(names) / max(1, rows))


def matrix(name: str, values: Tensor | np.ndarray) -> np.ndarray:
    """Returns the last two dimensions as a NumPy array; ValueError unless all others are 1."""
    array = values.detach().cpu().float().numpy() if isinstance(values, Tensor) else values
    if array.ndim < 2 or array.size != array.shape[-2] * array.shape[-1]:
        fix = "choose one of the batch and one head, such as x[0, 0]"
        raise invalid(name, "one matrix", f"shape {list(array.shape)}", fix)
    return array.reshape(array.shape[-2:])


def labels(name: str, given: Sequence[str] | None, count: int) -> list[str]:
    """Returns the labels given for `count` rows or columns, or their numbers if given None."""
    if given is None:
        return [str(i) for i in range(count)]
    if len(given) != count:
        raise invalid(name, f"{count} labels", len(given), "give one for each row or column drawn")
    return list(given)


def dress(
    axis: Axes, title: str, rows: Labels, columns: Labels, *, x: str = "", y: str = ""
) -> None:
    """Sets an axis's title, labels and ticks, and makes tick labels "<pad>" grey."""
    axis.set(title=title, xlabel=x, ylabel=y)
    axis.tick_params(length=0 if rows or columns else 3)
    if rows:
        axis.set_yticks(range(len(rows)), rows)
    if columns:
        slanted = max(map(len, columns)) > 2
        turn: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        axis.set_xticks(range(len(columns)), columns, **(turn if slanted else {}))
    for text in [axis.title, *axis.get_xticklabels(), *axis.get_yticklabels()]:
        text.set_parse_math(False)  # a "$" in a sentence is a letter
        if text.get_text() == PAD:
            text.set_color(GREY)


def few_powers(axis: Axis) -> None:
    """Puts labels 1, 2, 5, 10, … on a logarithmic axis of less than three powers of ten."""
    low, high = axis.get_data_interval()
    if 0 < high < 1000 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        plain_numbers(axis)


def plain_numbers(axis: Axis) -> None:
    """Formats the labels of a logarithmic axis as 0.05 and 2,000, not as powers of ten."""
    axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axis.set_minor_formatter(NullFormatter())


def number(value: float) -> str:
    """Returns a number as text, with two significant digits or whole: 0.37, 3.1e-05, 1,200."""
    return f"{value:.2g}" if abs(value) < 100 else f"{value:,.0f}"

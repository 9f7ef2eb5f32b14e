"""What a machine did, on logarithmic scales, with its name below: the roofline, and what grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from .picture import COLOURS, DASHES, GREY, STYLE, Picture, number, panels
from .validation import invalid
from .work import FLOAT32, exponent, peak, product_bytes, product_operations, speeds

MARKERS = "os^Dvx"
WIDTHS = {"bfloat16": 2, "float16": 2}  # bytes of a number; FLOAT32 for all others


def where(machine: Mapping[str, Any]) -> str:
    """The machine of a measurement, and the day."""
    threads = f"{machine['threads']} thread{'s' * (machine['threads'] != 1)}"
    return f"{machine['processor']}, {threads}, torch {machine['torch']}, {machine['date']}"


def finish(figure: Figure, axis: Axes, machine: Mapping[str, Any]) -> str:
    """Both scales logarithmic, and a legend under what was measured on."""
    axis.set(xscale="log", yscale="log")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_locator(LogLocator(subs=(1, 2, 5)))
        side.set_major_formatter(lambda value, _: f"{value:,.10g}")
        side.set_minor_formatter(NullFormatter())
    axis.spines[["top", "right"]].set_visible(False)
    on = where(machine)
    legend = figure.legend(loc="outside lower center", ncols=3, title=on, title_fontsize=8)
    legend.get_title().set_color(GREY)
    return f"Measured on {on}."


def roofline(products: Mapping[str, Any], bandwidth: float, machine: Mapping[str, Any]) -> Picture:
    """Products of square matrices under what the machine could reach (`speed.products`)."""
    words = []
    with rc_context(STYLE):
        figure, [[axis]] = panels(1, 1, 3.4)
        for i, (name, found) in enumerate(products.items()):
            sizes, width = found["sizes"], WIDTHS.get(name, FLOAT32)
            x = [product_operations(n, n, n) / product_bytes(n, n, n, width) for n in sizes]
            y = np.array(speeds(found)) / 1e9
            highest = peak(products, name) / 1e9
            roof = np.geomspace(min(1.0, *x), 2 * max(x), 200)
            limit = np.minimum(highest, roof * bandwidth / 1e9)
            axis.plot(roof, limit, color=COLOURS[i % 6], linestyle=DASHES[i % 6], lw=1.2)
            axis.plot(x, y, MARKERS[i % 6], color=COLOURS[i % 6], label=name)
            words.append(
                f"{name} goes from {number(y[0])} at n = {sizes[0]} to {number(y[-1])} at "
                f"n = {sizes[-1]}, at most {number(highest)}"
            )
        axis.set(xlabel="operations for each byte", ylabel="10⁹ operations a second")
        on = finish(figure, axis, machine)
    return Picture(figure, f"Roofline: 10⁹ operations a second of products of two n × n matrices "
                   f"over operations for each byte. {'; '.join(words)}. The slope is "
                   f"{number(bandwidth / 1e9)} GB a second. {on}")  # fmt: skip


def measured(
    lines: Mapping[str, Sequence[float]],
    x: Sequence[float],
    machine: Mapping[str, Any],
    *,
    xlabel: str,
    ylabel: str,
    fitted: int = 0,
) -> Picture:
    """Points, joined; or, through the last `fitted` of them, the power of x that fits them best."""
    words = []
    with rc_context(STYLE):
        figure, [[axis]] = panels(1, 1, 3.2)
        for i, (name, values) in enumerate(lines.items()):
            if len(values) != len(x):
                fix = "give x and each line the same length"
                raise invalid(name, f"{len(x)} values", len(values), fix)
            label, path = name, list(values)
            if fitted:
                power = exponent(x[-fitted:], values[-fitted:])
                label = f"{name}: grows like n^{round(power, 1) + 0.0}"  # + 0.0: never -0.0
                scale = np.exp(np.mean(np.log(values[-fitted:]) - power * np.log(x[-fitted:])))
                path = [scale * each**power for each in x[-fitted:]]
            style: dict[str, Any] = {"color": COLOURS[i % 6], "linestyle": DASHES[i % 6], "lw": 1.5}
            axis.plot(x, values, MARKERS[i % 6], color=COLOURS[i % 6], label=label)
            axis.plot(x[-len(path) :], path, **style)
            words.append(
                f"{label}, from {number(values[0])} at {number(x[0])} to {number(values[-1])} at "
                f"{number(x[-1])}"
            )
        axis.set(xlabel=xlabel, ylabel=ylabel)
        on = finish(figure, axis, machine)
        axis.set_xticks(x, [f"{each:,}" for each in x])
        axis.xaxis.set_minor_locator(NullLocator())
    return Picture(figure, f"{ylabel} over {xlabel}. {'; '.join(words)}. {on}")

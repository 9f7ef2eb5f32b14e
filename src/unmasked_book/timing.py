"""Times functions and decoding steps; draws PyTorch's calls and recorded times (chapter 13)."""

import math
import os
import time
import timeit
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from torch import Tensor

from unmasked.config import TransformerConfig
from unmasked.plots import Picture, picture
from unmasked.plots.picture import COLOURS, DASHES, GREY, MARKERS, OPEN, in_a_row, number, panels
from unmasked.search import Steps
from unmasked.tokens import BOS
from unmasked.transformer import Transformer


def fastest(run: Callable[[], object]) -> float:
    """Returns the processor seconds of one call of `run`, in the fastest of fifty rounds.

    A round repeats the call for 3 ms; a first call warms up. As only this thread's time counts,
    other processes disturb it only through the caches and the memory that they share.
    """
    run()
    timer = timeit.Timer(run, timer=time.thread_time)
    times = math.ceil(0.003 / max(timer.timeit(1), 1e-9))
    return min(timer.repeat(50, times)) / times


def decoding_step(
    config: TransformerConfig, rows: int, device: torch.device
) -> Callable[[], Tensor]:
    """Returns a function that repeats the first step of greedy search for `rows` sentences."""
    draws = torch.Generator().manual_seed(0)
    source = torch.randint(3, config.source_vocab, (rows, 8), generator=draws).to(device)
    begin, parents = torch.full_like(source[:, :1], BOS), torch.zeros_like(source[:, :1])
    with torch.inference_mode():
        steps = Steps(Transformer(config).to(device).eval(), source, 1, 64)
    state: Any = steps.state

    @torch.inference_mode()
    def run() -> Tensor:
        state.length = 0  # each time as if it were the first
        for back, _ in state.looks:
            back.length = 0
        return steps.step(begin, parents)

    run()  # which makes room for keys and values
    return run


# --- Calls along an axis of time --------------------------------------------------------------

RUN = "one run"
KINDS = {
    "matrix products": ("mm", "addmm", "addmv", "mv", "bmm"),
    "attention": ("scaled_dot_product_attention", "_softmax"),
    "norms, additions, ReLU": ("native_layer_norm", "add", "relu", "clamp_min"),
}
REST = "calls that compute nothing"


class Call(NamedTuple):
    """A Call is one call to PyTorch: microseconds from the run's start, duration, category."""

    begin: float
    took: float
    kind: str


def trace(run: Callable[[], object]) -> list[Call]:
    """Profiles seven calls of `run`, and returns the calls to PyTorch in the fastest of them."""
    run()
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it says when it begins and ends
    with torch.profiler.profile() as found:
        for _ in range(7):
            with torch.profiler.record_function(RUN):
                run()
    runs = [event for event in found.events() or () if event.name == RUN]
    chosen = min(runs, key=lambda event: event.time_range.elapsed_us())
    begin = chosen.time_range.start
    return [
        Call(each.time_range.start - begin, each.time_range.elapsed_us(), kind_of(each))
        for each in sorted(chosen.cpu_children, key=lambda event: event.time_range.start)
    ]


def names(event: Any) -> Iterable[str]:
    """Yields the name of a profiler event and of all those inside it, without aten::."""
    yield event.name.removeprefix("aten::")
    for inner in event.cpu_children:
        yield from names(inner)


def kind_of(event: Any) -> str:
    """Returns a profiler event's category: the first of `KINDS` that lists it or one inside it."""
    return next((kind for kind, some in KINDS.items() if {*names(event)} & {*some}), REST)


def timeline(runs: Mapping[str, Sequence[Call]]) -> Picture:
    """Draws each run's calls to PyTorch as bars along an axis of time, coloured by category."""
    words = []
    colours = dict(zip([*KINDS, REST], [*COLOURS[: len(KINDS)], "#9aa3ad"], strict=True))
    with rc_context(OPEN):
        figure, rows = panels(len(runs), 1, 1.35)
        for (name, calls), [axis] in zip(runs.items(), rows, strict=True):
            said, end = [], calls[-1].begin + calls[-1].took
            for kind in (*KINDS, REST):
                bars = [(call.begin, call.took) for call in calls if call.kind == kind]
                axis.broken_barh(bars, (0, 1), color=colours[kind], label=kind, lw=0)
                said.append(f"{kind} {sum(took for _, took in bars) / end:.0%}")
            axis.set(xlim=(0, end), yticks=[], title=name)
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axis.spines.left.set_visible(False)
            words.append(f"{name}: {len(calls)} calls in {number(end)} µs, {', '.join(said)}")
        axis.set_xlabel("microseconds")
        legend = axis.get_legend_handles_labels()
        figure.legend(*legend, loc="outside lower center", ncols=in_a_row(legend[1]))
    return Picture(figure, f"Calls along an axis of time. {'; '.join(words)}.")


# --- What was measured ------------------------------------------------------------------------


def where(machine: Mapping[str, Any]) -> str:
    """Returns a measurement's processor, threads, torch version and date as one text."""
    on, threads = machine["processor"], machine["threads"]
    if "NVIDIA" not in on:  # there the CPU's threads only wait
        on += f", {threads} thread{'s' * (threads != 1)}"
    return f"{on}, torch {machine['torch']}, {machine['date']}"


def roofline(run: Mapping[str, Any]) -> Picture:
    """Draws the recorded run `limits-cpu`: operations a second over operations for each byte.

    Its limits (roofs) are the fastest matrix product, and the bytes a second from cache and memory.
    """
    best = {name: 1e9 * min(times) for name, times in run["seconds"].items()}  # nanoseconds
    sizes = [int(name.split()[1]) for name in best if name.startswith("product")]
    points = {f"{n}": (n / 6, 2 * n**3 / best[f"product {n}"]) for n in sizes}
    points["matrix times vector"] = 0.5, 2 * 2**24 / best["read 64 MiB, times a vector"]
    peak, words = max(speed for _, speed in points.values()), []
    with rc_context(OPEN):
        figure, [[axis]] = panels(1, 1, 3.4)
        x = np.geomspace(0.3, 2 * max(intensity for intensity, _ in points.values()), 200)
        for i, (name, size) in enumerate({"cache": 4, "memory": 64}.items()):
            read = [took for work, took in best.items() if work.startswith(f"read {size} MiB")]
            label = f"{name}: {number(size * 2**20 / min(read))} GB a second"
            roof = np.minimum(peak, x * size * 2**20 / min(read))
            axis.plot(x, roof, color=GREY, linestyle=DASHES[i], lw=1.2, label=label)
            words.append(label)
        for name, point in points.items():
            axis.plot(*point, "o", color=COLOURS[0])
            axis.annotate(name, point, (7, -2), va="top", textcoords="offset points",
                          fontsize="small")  # fmt: skip
            words.append(f"{name} at {number(point[0])} and {number(point[1])}")
        axis.annotate("peak", (x[-1], peak), (-26, 4), textcoords="offset points", color=GREY)
        axis.margins(x=0.09, y=0.12)
        axis.set(xlabel="operations for each byte", ylabel="10⁹ operations a second")
        on = finish(figure, axis, run["machine"])
    return Picture(figure, f"Roofline: 10⁹ operations a second, at most {number(peak)}, over "
                   f"operations for each byte. {'; '.join(words)}. {on}")  # fmt: skip


def measured(
    lines: Mapping[str, Sequence[float]],
    x: Sequence[float],
    machine: Mapping[str, Any],
    *,
    xlabel: str,
    ylabel: str,
    fitted: int = 0,
    height: float = 3.2,
) -> Picture:
    """Draws `lines`, which hold the values at each x by name, as joined points on logarithmic axes.

    If `fitted`, the power of x that fits the last `fitted` points best is drawn through them.
    """
    words = []
    with rc_context(OPEN):
        figure, [[axis]] = panels(1, 1, height)
        for i, (name, values) in enumerate(lines.items()):
            said = name
            style: dict[str, Any] = {"color": COLOURS[i], "linestyle": DASHES[i], "lw": 1.5}
            if fitted:
                power, start = np.polyfit(np.log(x[-fitted:]), np.log(values[-fitted:]), 1)
                grows = round(power, 1) + 0.0  # + 0.0: never -0.0
                label, said = f"{name}: grows like $n^{{{grows}}}$", f"{name}: grows like n^{grows}"
                axis.plot(x, values, MARKERS[i], color=COLOURS[i], label=label)
                axis.plot(x[-fitted:], np.exp(start) * np.power(x[-fitted:], power), **style)
            else:
                axis.plot(x, values, marker=MARKERS[i], label=name, **style)
            first, last = (f"{number(values[end])} at {number(x[end])}" for end in (0, -1))
            words.append(f"{said}, from {first} to {last}")
        axis.set(xlabel=xlabel, ylabel=ylabel)
        on = finish(figure, axis, machine)
        axis.set_xticks(x, [f"{each:,}" for each in x])
        axis.xaxis.set_minor_locator(NullLocator())
    return Picture(figure, f"{ylabel} over {xlabel}. {'; '.join(words)}. {on}")


def finish(figure: Figure, axis: Axes, machine: Mapping[str, Any]) -> str:
    """Makes both axes logarithmic, adds a legend, and returns a sentence that names the machine."""
    axis.set(xscale="log", yscale="log")
    for side in (axis.xaxis, axis.yaxis):
        picture.few_powers(side)
        picture.plain_numbers(side)
    on = where(machine)
    columns = in_a_row(axis.get_legend_handles_labels()[1])
    legend = figure.legend(loc="outside lower center", ncols=columns, title=on, title_fontsize=8)
    legend.get_title().set_color(GREY)
    return f"Measured on {on}."

"""A run's calls to PyTorch along an axis of time, as `torch.profiler` records them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from matplotlib import rc_context

from unmasked.plots.picture import COLOURS, STYLE, Picture, in_a_row, number, panels
from unmasked_book.machines import profiler

RUN = "one run"


class Call(NamedTuple):
    """A call from Python: microseconds since the run began, its duration, and all it called."""

    begin: float
    took: float
    names: frozenset[str]


def trace(run: Callable[[], object], times: int = 7) -> list[Call]:
    """The calls of the fastest of several runs, in order."""
    run()
    with profiler() as found:
        for _ in range(times):
            with torch.profiler.record_function(RUN):
                run()
    runs = [event for event in found.events() or () if event.name == RUN]
    fastest = min(runs, key=lambda event: event.time_range.elapsed_us())
    begin = fastest.time_range.start
    calls = sorted(fastest.cpu_children, key=lambda event: event.time_range.start)
    return [
        Call(each.time_range.start - begin, each.time_range.elapsed_us(), frozenset(names(each)))
        for each in calls
    ]


def names(event: Any) -> Iterable[str]:
    """The event's name and those of all calls inside it."""
    yield event.name.removeprefix("aten::")
    for inner in event.cpu_children:
        yield from names(inner)


Spans = dict[str, list[tuple[float, float]]]  # of each kind: where a call begins, how long it takes


def by_kind(calls: Sequence[Call], kinds: Mapping[str, Iterable[str]], rest: str) -> Spans:
    """Each call with the first kind that names anything in it, or with the rest."""
    found: Spans = {kind: [] for kind in (*kinds, rest)}
    for begin, took, called in calls:
        kind = next((kind for kind, some in kinds.items() if called & {*some}), rest)
        found[kind].append((begin, took))
    return found


def shares(
    calls: Sequence[Call], kinds: Mapping[str, Iterable[str]], rest: str
) -> dict[str, float]:
    """The share of the run's time in calls of each kind; what is missing is between the calls."""
    spans = by_kind(calls, kinds, rest).items()
    return {kind: sum(took for _, took in each) / length(calls) for kind, each in spans}


def length(calls: Sequence[Call]) -> float:
    """Microseconds up to the end of the last call."""
    return calls[-1].begin + calls[-1].took


def timeline(
    runs: Mapping[str, Sequence[Call]], kinds: Mapping[str, Iterable[str]], rest: str
) -> Picture:
    """One row for each run: its calls as bars, a colour for each kind, white between two calls.

    `kinds` names the calls of each kind; `rest` is the name of all others.
    """
    words = []
    colours = dict(zip([*kinds, rest], [*COLOURS[: len(kinds)], "#9aa3ad"], strict=True))
    with rc_context(STYLE):
        figure, rows = panels(len(runs), 1, 1.35)
        for (name, calls), [axis] in zip(runs.items(), rows, strict=True):
            for kind, bars in by_kind(calls, kinds, rest).items():
                axis.broken_barh(bars, (0, 1), color=colours[kind], label=kind, lw=0)
            axis.set(xlim=(0, length(calls)), yticks=[], title=name)
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axis.spines[["left", "top", "right"]].set_visible(False)
            said = ", ".join(
                f"{kind} {share:.0%}" for kind, share in shares(calls, kinds, rest).items()
            )
            words.append(f"{name}: {len(calls)} calls in {number(length(calls))} µs, {said}")
        axis.set_xlabel("microseconds")
        handles, texts = axis.get_legend_handles_labels()
        figure.legend(handles, texts, loc="outside lower center", ncols=in_a_row(texts))
    return Picture(figure, f"Calls along an axis of time. {'; '.join(words)}.")

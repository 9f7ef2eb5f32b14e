"""What benchmarks/devices.py found, as tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unmasked import TransformerConfig
from unmasked_book.machines import peak, share_of_peak, speeds, where

Result = dict[str, Any]


def table(result: Result) -> str:
    about, shape = result["machine"], result["model"]
    parts = [
        f"{where(about)} · `{about['command']}`",
        f"A vector sum fetches and stores {result['bandwidth'] / 1e9:.1f} GB a second. Products of "
        "two n × n matrices, in 10⁹ operations a second:",
        products(result["products"]),
        f"Training steps inside our engine: width {shape['d_model']}, {shape['n_layers']} + "
        f"{shape['n_layers']} layers, {shape['source_vocab']:,} words, "
        f"{result['parameters']:,} parameters, no dropout. Tokens are those of both sides; the "
        "share is that of the fastest product of the same precision.",
        *steps(result, "rows"),
        *steps(result, "lengths"),
        *single(result["ragged"], f"rows of 1 to {result['rows']['length']} words"),
        *single(result["short"], f"rows of {result['short']['length']} words"),
        "Attention, 8 heads of width 64, 4096 words in rows of n, forward and backward, in ms:",
        grid("n", result["attention"]["lengths"], {
            name: [f"{time:.1f}" for time in times]
            for name, times in result["attention"]["milliseconds"].items()
        }),
    ]  # fmt: skip
    return "\n\n".join(parts)


def grid(corner: str, heads: Sequence[Any], lines: dict[str, list[str]]) -> str:
    """A table: `heads` above, a name before each line; short lines are filled up."""
    rows = [[corner, *map(str, heads)], ["---", *["--:"] * len(heads)]]
    rows += [[name, *cells, *["–"] * (len(heads) - len(cells))] for name, cells in lines.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def products(found: Result) -> str:
    sizes = max((measured["sizes"] for measured in found.values()), key=len)
    lines = {name: [f"{x / 1e9:,.1f}" for x in speeds(each)] for name, each in found.items()}
    return grid("n", sizes, lines)


def steps(result: Result, what: str) -> list[str]:
    """Tokens a second, share of the peak and memory, against rows or lengths."""
    series = result[what]
    if what == "rows":
        shapes = [(rows, series["length"]) for rows in series["rows"]]
        title = f"Rows of {series['length']} words:"
    else:
        shapes = [(series["tokens"] // length, length) for length in series["lengths"]]
        title = f"{series['tokens']:,} words on either side, in rows of n:"
    lines: dict[str, list[str]] = {}
    for name, kind in series["kinds"].items():
        highest = peak(result["products"], name.split(",")[0])
        times = kind["seconds"]
        each = list(zip(shapes, times, strict=True))
        lines[f"{name}: tokens/s"] = [
            cell(time and 2 * rows * n / time, ",.0f") for (rows, n), time in each
        ]
        config = TransformerConfig(**result["model"])
        lines[f"{name}: share of the peak"] = [
            cell(time and share_of_peak(config, rows, n, time, highest), ".0%")
            for (rows, n), time in each
        ]
        lines[f"{name}: MiB"] = [cell(x, ",.0f") for x in kind["mebibytes"]]
    return [title, grid("rows" if what == "rows" else "n", series[what], lines)]


def cell(value: float | None, form: str) -> str:
    return "no memory" if value is None else format(value, form)


def single(series: Result, what: str) -> list[str]:
    """One batch, computed in several ways."""
    words = 2 * series.get("words", series["rows"] * series.get("length", 0))
    found = {name: kind["seconds"][0] for name, kind in series["kinds"].items()}
    cells = {name: [cell(time and words / time, ",.0f")] for name, time in found.items()}
    return [f"{series['rows']} {what}:", grid("", ["words/s"], cells)]

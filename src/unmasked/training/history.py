"""What a training measured on its way: a table, a plot, a file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import invalid, require_whole

if TYPE_CHECKING:
    from ..plots.picture import Picture


Row = dict[str, float]


class History:
    """A row of numbers for each measured step; what was not measured there is left out."""

    def __init__(self, rows: list[Row] | None = None) -> None:
        self.rows: list[Row] = rows or []

    def add(self, step: int, values: Mapping[str, float]) -> None:
        if self.rows and self.rows[-1]["step"] == step:
            self.rows[-1].update(values)
        else:
            self.rows.append({"step": step, **values})

    def __getitem__(self, name: str) -> list[float]:
        """A column: the values of all rows that have it."""
        self.check(name)
        return [row[name] for row in self.rows if name in row]

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def check(self, *names: str) -> None:
        if unknown := [name for name in names if name not in self.names()]:
            fix = f"there are {', '.join(self.names())}" if self.rows else "train first"
            raise invalid("names", "columns that were measured", unknown[0], fix)

    def table(self, *names: str, last: int = 10) -> str:
        """The last rows, as text."""
        require_whole("last", last, 1)
        self.check(*names)
        columns = list(names) or self.names()
        lines = [[cell(row[n]) if n in row else "" for n in columns] for row in self.rows[-last:]]
        widths = [max(map(len, column)) for column in zip(columns, *lines, strict=True)]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in [columns, *lines]
        )

    def __repr__(self) -> str:
        return self.table()

    def plot(self, *names: str, **options: Any) -> Picture:
        """Columns over the steps: the loss, unless others are named."""
        from ..plots.lines import curves  # matplotlib is slow to load, and most runs draw nothing

        columns = list(names) or ["loss"]
        self.check(*columns)
        rows = [row for row in self.rows if all(name in row for name in columns)]
        if not rows:
            fix = "draw them one by one"
            raise invalid("names", "columns that were measured together", columns, fix)
        lines = {name: [row[name] for row in rows] for name in columns}
        steps = [row["step"] for row in rows]
        label = " and ".join(columns)
        return curves(lines, steps, **{"xlabel": "step", "ylabel": label, **options})

    def write(self, path: Path | str) -> None:
        """As CSV."""
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.names())
            writer.writeheader()
            writer.writerows(self.rows)


def cell(value: float) -> str:
    """Four digits that count, and all those before the point."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"

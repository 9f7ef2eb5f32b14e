"""Keeps a training's losses and other measures as a table, to be shown, drawn and written."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import invalid

if TYPE_CHECKING:
    from ..plots.picture import Picture

Row = dict[str, float]


class History:
    """A History is a table: `rows` has a dictionary of what was measured at each noted step."""

    def __init__(self, rows: list[Row] | None = None) -> None:
        self.rows: list[Row] = rows or []

    def add(self, step: int, values: Mapping[str, float]) -> None:
        if not self.rows or self.rows[-1]["step"] != step:
            self.rows.append({"step": step})
        self.rows[-1].update(values)

    def __getitem__(self, name: str) -> list[float]:
        """Returns the numbers of a column, such as `loss`, from all rows that have it."""
        self.require(name)
        return [row[name] for row in self.rows if name in row]

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def require(self, *names: str) -> None:
        """Raises ValueError for a name that no row has as a column."""
        if unknown := [name for name in names if name not in self.names()]:
            fix = f"there are {', '.join(self.names())}" if self.rows else "train first"
            raise invalid("names", "columns that were measured", unknown[0], fix)

    def table(self, *names: str, last: int = 10) -> str:
        """Returns the last rows as text, with the named columns or else all."""
        self.require(*names)
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
        """Returns a picture of the named columns, or else of the loss, over the training steps."""
        from ..plots.lines import curves  # matplotlib is slow to load, and most runs draw nothing

        columns = list(names) or ["loss"]
        self.require(*columns)
        rows = [row for row in self.rows if row.keys() >= set(columns)]
        if not rows:
            fix = "draw them one by one"
            raise invalid("names", "columns that were measured together", columns, fix)
        lines = {name: [row[name] for row in rows] for name in columns}
        labels = {"xlabel": "step", "ylabel": " and ".join(columns)}
        return curves(lines, [row["step"] for row in rows], **{**labels, **options})

    def write(self, path: Path | str) -> None:
        """Writes all rows to a CSV file."""
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.names())
            writer.writeheader()
            writer.writerows(self.rows)


def cell(value: float) -> str:
    """Returns a number as text with four significant digits, or all before the decimal point."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"

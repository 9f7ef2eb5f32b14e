"""Defines a table that a notebook shows as HTML, and a terminal as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

LEFT, RIGHT = "text-align: left", "text-align: right"
SHORT = 36  # letters of a row's name that stay on one line


@dataclass(frozen=True)
class Table:
    """A Table has a title, named columns, and named rows of cells, which are strings."""

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[str]]
    note: str = ""  # after the title: where and when it was measured, say

    def _repr_html_(self) -> str:
        looks = [self.look(number) for number in range(len(self.columns))]
        heads, body = "", ""
        for look, name in zip(looks, self.columns, strict=True):
            heads += f'<th scope="col" style="{look}">{escape(name)}</th>'
        for name, cells in self.rows.items():
            stays = "; white-space: nowrap" * (len(name) <= SHORT)
            body += f'<tr><th scope="row" style="{LEFT}{stays}">{escape(name)}</th>'
            for look, cell in zip(looks, cells, strict=True):
                own = f' style="{look}"' * (look != RIGHT)  # which the whole table says
                body += f"<td{own}>{escape(cell)}</td>"
            body += "</tr>\n"
        return (
            f'<table class="dataframe" style="{RIGHT}" aria-label="{escape(self.title)}">\n'
            f'<caption style="{LEFT}; color: inherit">{escape(self.caption())}</caption>\n'
            f"<thead><tr><td></td>{heads}</tr></thead>\n<tbody>\n{body}</tbody></table>"
        )

    def look(self, column: int) -> str:
        """Returns a column's CSS alignment: left if all cells begin with letters, else right."""
        words = all(cells[column][:1].isalpha() for cells in self.rows.values())
        return LEFT if words else RIGHT

    def caption(self) -> str:
        return f"{self.title}. {self.note}" if self.note else self.title

    def __repr__(self) -> str:
        lines = [("", *self.columns), *((n, *cells) for n, cells in self.rows.items())]
        widths = (max(map(len, column)) for column in zip(*lines, strict=True))
        sides = ["<", *("<" if self.look(i) == LEFT else ">" for i in range(len(self.columns)))]
        form = "  ".join(f"{{:{side}{n}}}" for side, n in zip(sides, widths, strict=True))
        text = [form.format(*cells) for cells in lines]
        return "\n".join(line.rstrip() for line in (self.caption(), *text))

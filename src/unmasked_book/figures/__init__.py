"""The book's drawings: SVG in the page's own colours, each described in words inside."""

from html import escape, unescape
from pathlib import Path

FOLDER = Path(__file__).parent
STYLE = (FOLDER / "style.css").read_text(encoding="utf-8")


class Figure:
    """In a notebook it shows itself; `words` say the same for whoever cannot see it."""

    def __init__(self, name: str) -> None:
        self.svg = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
        self.words = unescape(self.svg.partition("<desc>")[2].partition("</desc>")[0])

    def _repr_html_(self) -> str:
        said = escape(self.words, quote=True)
        once = self.svg.replace("<svg ", '<svg aria-hidden="true" ', 1)  # its words are said once
        hidden = self.svg if "<a " in self.svg else once  # but links are reached
        return (
            f'<div class="unmasked-drawing" tabindex="0" role="group" aria-label="{said}">'
            f"<style>{STYLE}</style>{hidden}</div>"
        )

    def __repr__(self) -> str:
        return self.words


def figure(name: str) -> Figure:
    """A drawing by its name, such as `clocks`."""
    return Figure(name)

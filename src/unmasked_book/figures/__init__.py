"""Shows the book's drawings, SVG files in this folder; what is computed, unmasked.plots draws."""

import re
from html import escape, unescape
from pathlib import Path

from unmasked.plots.viewer import View

FOLDER = Path(__file__).parent
STYLE = (FOLDER / "style.css").read_text(encoding="utf-8")


def figure(name: str) -> View:
    """Returns a drawing by its name, such as `clocks`; in a notebook it shows itself."""
    svg = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    words = unescape(svg.partition("<desc>")[2].partition("</desc>")[0])
    if "<svg x=" in svg:
        svg = panels(svg)
    elif "<a " not in svg:  # else its links are reached
        svg = svg.replace("<svg ", '<svg aria-hidden="true" ', 1)  # its words are said once
    said = escape(words, quote=True)
    head = f'<div class="unmasked-drawing" tabindex="0" role="group" aria-label="{said}">'
    return View(f"{head}<style>{STYLE}</style>{svg}</div>", words)


def panels(svg: str) -> str:
    """Takes a drawing apart into panels, which stand in one column where there is little room."""
    each = re.findall(r"<svg x=.*?(viewBox=.*?</svg>)", svg, re.DOTALL)
    return f'<div class="panels" aria-hidden="true"><svg {"<svg ".join(each)}</div>'

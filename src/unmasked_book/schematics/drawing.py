"""The pen that all schematics are drawn with: shapes on a plane, as SVG in the page's own colours.

A drawing is a list of shapes. Lengths are SVG units, a page is about 660 wide, y grows downwards.
Text takes the colour of the page around it, and the coloured parts are chosen to be read on white
and on black alike, so nothing has to know which theme is on.
"""

from __future__ import annotations

import math
from html import escape

BLUE, ORANGE, GREEN, PURPLE, YELLOW, GREY = (
    "#3f8fd2", "#d9772b", "#3aa06c", "#9a63c4", "#c9a227", "#8a8f98",
)  # fmt: skip
STYLE = """
.unmasked-drawing { max-width: 42rem; overflow-x: auto; }
.unmasked-drawing svg { display: block; height: auto; margin: 0 auto; width: 100%; }
.unmasked-drawing text { fill: currentColor; font: 13px sans-serif; text-anchor: middle; }
.unmasked-drawing .small { font: 11.5px sans-serif; opacity: .85; }
.unmasked-drawing .title { font: bold 13.5px sans-serif; }
.unmasked-drawing .mono { font: 12px monospace; }
.unmasked-drawing .start { text-anchor: start; }
.unmasked-drawing .end { text-anchor: end; }
"""


class Drawing:
    """Shapes, and the same in words for whoever cannot see them.

    In a notebook it shows itself; `svg()` is the picture alone.
    """

    def __init__(self, words: str, width: float, height: float) -> None:
        self.words, self.width, self.height = words, width, height
        self.shapes: list[str] = []

    def svg(self) -> str:
        inside = "".join(self.shapes)
        least = f"min-width:{min(self.width, 544) / 16:g}rem"  # on a phone it scrolls alone
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" style="{least}" '
            f'xmlns="http://www.w3.org/2000/svg" aria-hidden="true">{inside}</svg>'
        )

    def _repr_html_(self) -> str:
        said = escape(self.words, quote=True)
        return (
            f'<div class="unmasked-drawing" tabindex="0" role="group" aria-label="{said}">'
            f"<style>{STYLE}</style>{self.svg()}</div>"
        )

    def __repr__(self) -> str:
        return self.words

    # --- Shapes -----------------------------------------------------------------------------------

    def text(self, x: float, y: float, words: str, kind: str = "", colour: str = "") -> None:
        """`kind`: any of title, small, mono, start, end. `y` is the line that letters stand on."""
        look = f' style="fill:{colour}"' if colour else ""
        self.shapes.append(
            f'<text class="{kind}" x="{x:.4g}" y="{y:.4g}"{look}>{escape(words)}</text>'
        )

    def indexed(self, x: float, y: float, name: str, index: str) -> None:
        """A name with an index a little below it: W with Q."""
        self.shapes.append(
            f'<text x="{x:.4g}" y="{y:.4g}">{escape(name)}'
            f'<tspan dy="4" font-size="11.5">{escape(index)}</tspan></text>'
        )

    def box(
        self, x: float, y: float, width: float, height: float, words: str = "",
        colour: str = GREY, fill: float = 0.22, kind: str = "", dashed: bool = False,
    ) -> None:  # fmt: skip
        """A rounded box with its corner at x, y and its words in the middle."""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.shapes.append(
            f'<rect x="{x:.4g}" y="{y:.4g}" width="{width:.4g}" height="{height:.4g}" rx="5" '
            f'fill="{colour}" fill-opacity="{fill:g}" stroke="{colour}"{dash}/>'
        )
        if words:
            self.text(x + width / 2, y + height / 2 + 4.5, words, kind)

    def line(
        self, points: list[tuple[float, float]], colour: str = "currentColor", width: float = 1.5,
        dashed: bool = False, arrow: bool = False, opacity: float = 1.0,
    ) -> None:  # fmt: skip
        """A line through the points, with a head at its end if it is an arrow."""
        path = " ".join(f"{x:.4g},{y:.4g}" for x, y in points)
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.shapes.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}" '
            f'stroke-opacity="{opacity:g}" stroke-linejoin="round"{dash}/>'
        )
        if arrow:
            self.head(points[-2], points[-1], colour, opacity)

    def arrow(
        self, start: tuple[float, float], end: tuple[float, float],
        colour: str = "currentColor", width: float = 1.5, dashed: bool = False,
    ) -> None:  # fmt: skip
        self.line([start, end], colour, width, dashed, arrow=True)

    def head(
        self, start: tuple[float, float], end: tuple[float, float], colour: str, opacity: float
    ) -> None:
        angle = math.atan2(end[1] - start[1], end[0] - start[0])
        wings = [
            (end[0] - 8 * math.cos(angle + turn), end[1] - 8 * math.sin(angle + turn))
            for turn in (0.42, -0.42)
        ]
        path = " ".join(f"{x:.4g},{y:.4g}" for x, y in [end, *wings])
        self.shapes.append(f'<polygon points="{path}" fill="{colour}" fill-opacity="{opacity:g}"/>')

    def circle(
        self, x: float, y: float, radius: float, colour: str = GREY, fill: float = 1.0,
        stroke: bool = True,
    ) -> None:  # fmt: skip
        edge = f' stroke="{colour}"' if stroke else ""
        self.shapes.append(
            f'<circle cx="{x:.4g}" cy="{y:.4g}" r="{radius:g}" fill="{colour}" '
            f'fill-opacity="{fill:g}"{edge}/>'
        )

    def ring(self, x: float, y: float, radius: float, colour: str, width: float = 2.5) -> None:
        """A circle that is hollow."""
        self.shapes.append(
            f'<circle cx="{x:.4g}" cy="{y:.4g}" r="{radius:g}" fill="none" stroke="{colour}" '
            f'stroke-width="{width:g}"/>'
        )

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A bar of a chart, with square corners."""
        self.shapes.append(
            f'<rect x="{x:.4g}" y="{y:.4g}" width="{width:.4g}" height="{height:.4g}" '
            f'fill="{colour}" fill-opacity=".75"/>'
        )

    def cell(self, x: float, y: float, size: float, strength: float, colour: str = BLUE) -> None:
        """A square of a heat map: stronger is more opaque."""
        self.shapes.append(
            f'<rect x="{x:.4g}" y="{y:.4g}" width="{size:g}" height="{size:g}" fill="{colour}" '
            f'fill-opacity="{strength:.2f}" stroke="{GREY}" stroke-opacity=".5"/>'
        )

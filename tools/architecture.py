"""Writes the README's picture: the book's diagram, with the file beside each block."""

from __future__ import annotations

import argparse
import re
from html import escape
from pathlib import Path

from unmasked_book import diagram

TARGET = Path(__file__).parents[1] / "book/_static/architecture.svg"
FILES = {
    "embeddings · √D": "transformer.py",
    "+ positions": "positions.py",
    "self-attention": "attention.py",
    "cross-attention": "attention.py",
    "padding mask": "masks.py",
    "causal and padding mask": "masks.py",
    "source padding mask": "masks.py",
    "feed-forward": "feed_forward.py",
    "add & norm": "encoder.py",
    "memory": "",
    "last matrix": "transformer.py",
}
STACKS = ("encoder.py", "decoder.py")
BLOCK = re.compile(
    r'<a [^>]*><rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)".*?>([^<]+)</text>'
)
STYLE = """
svg { color: #20262d; background: #fff; }
@media (prefers-color-scheme: dark) { svg { color: #e6e9ec; background: #14181d; } }
a { pointer-events: none; }
.file { font: 12px ui-monospace, monospace !important; opacity: .8; }
.left { text-anchor: end !important; }
.right { text-anchor: start !important; }
"""


def picture() -> str:
    """A whole SVG file, for light pages and dark ones."""
    inside = re.search(r"<svg[^>]*>(.*)</svg>", diagram.svg(), re.DOTALL)
    height = re.search(r'viewBox="0 0 640 (\d+)"', diagram.svg())
    assert inside is not None
    assert height is not None
    style = diagram.STYLE.replace(".unmasked-diagram ", "").replace(
        "svg { height: auto; min-width: 34rem; width: 100%; }", ""
    )
    labels = []
    for x, y, width, tall, name in BLOCK.findall(inside[1]):
        middle = int(y) + int(tall) // 2 + 4
        if int(x) < 320:
            place = f'class="file left" x="{int(x) - 24}"'
        else:
            place = f'class="file right" x="{int(x) + int(width) + 44}"'
        file = FILES[name.replace("&amp;", "&").replace("&#x27;", "'")]
        labels.append(f'<text {place} y="{middle}">{file}</text>')
    for x, file in zip((160, 470), STACKS, strict=True):
        labels.append(f'<text class="file" x="{x}" y="0">{file}</text>')
    size = f"-80 -20 840 {int(height[1]) + 10}"
    said = escape(diagram.WORDS, quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" width="840" role="img" '
        f'aria-label="{said}"><style>{style}{STYLE}</style>{inside[1]}{"".join(labels)}</svg>\n'
    )


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    TARGET.write_text(picture(), encoding="utf-8")
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes")

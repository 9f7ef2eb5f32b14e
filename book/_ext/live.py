"""Puts the live model into the built book: boxes in pages, files beside them, tables.

A page holds `<div class="unmasked-live-here" data-model="de-en"></div>`, in Markdown or in a
notebook's Markdown, with what is shown elsewhere inside it; `data-drawn` draws the figure. Nothing
is loaded before the reader's click.
"""

import base64
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from unmasked.translator import shipped_models
from unmasked_book.live import tables
from unmasked_book.live.translator import box, model_file, script

PLACE = re.compile(
    r'<div class="unmasked-live-here" data-model="([\w-]+)"( data-drawn)?>.*?</div>', re.DOTALL
)
FOLDER = "_static/live"


def fill_places(_: Sphinx, page: str, __: str, context: dict[str, Any], ___: object) -> None:
    """Replaces the place that a page has for a box by the box."""
    at = f"{'../' * page.count('/')}{FOLDER}/"
    if "body" in context:
        filled = PLACE.sub(lambda it: box(it[1], at, drawn=bool(it[2])), context["body"])
        context["body"] = filled


def write_files(app: Sphinx, error: Exception | None) -> None:
    """Writes the script, and each model twice: to be fetched, and as a script for file://."""
    if error or app.builder.format != "html":
        return
    folder = Path(app.outdir, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "live.js").write_text(script(), encoding="utf-8")
    for name in shipped_models():
        data = model_file(name)
        (folder / f"{name}.bin").write_bytes(data)
        text = base64.b64encode(data).decode("ascii")
        models = "(globalThis.unmaskedModels = globalThis.unmaskedModels || {})"
        (folder / f"{name}.js").write_text(f'{models}["{name}"] = "{text}";\n', encoding="utf-8")


class LiveTable(SphinxDirective):
    """Shows a recorded run as a table: `{live-table} equality` or `{live-table} ablations`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(getattr(tables, self.arguments[0])())


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", fill_places)
    app.connect("build-finished", write_files)
    app.add_directive("live-table", LiveTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Shows the picture of a notebook in a Markdown page: `{stored-figure} notebook cell-id`.

So there is one copy of each figure and of its description: the one that the tests re-make.
"""

import base64
import html
import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class StoredFigure(SphinxDirective):
    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        notebook, cell_id = self.arguments
        path = Path(self.env.srcdir, "book", f"{notebook}.ipynb")
        self.env.note_dependency(str(path))
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [each for cell in cells if cell["id"] == cell_id for each in cell["outputs"]]
        found = [each["data"] for each in outputs if "image/png" in each.get("data", {})]
        if len(found) != 1:
            raise self.error(f"{path.name} has {len(found)} pictures in a cell {cell_id!r}, not 1")
        name = f"{notebook}-{cell_id}.png"
        folder = Path(self.env.app.outdir, "_images")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(base64.b64decode(found[0]["image/png"]))
        up = "../" * self.env.docname.count("/")
        words = html.escape("".join(found[0]["text/plain"]))
        image = f'<img src="{up}_images/{name}" alt="{words}">'
        return [nodes.raw("", f'<p class="stored-figure">{image}</p>', format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("stored-figure", StoredFigure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Adds the terms of `book/terms.toml` to the index and the search.

Notebooks hold portable Markdown, so no directive can stand in them. A heading that does not exist
is an error of the build.
"""

import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

logger = logging.getLogger(__name__)


class Terms(SphinxTransform):
    default_priority = 700  # when sections have their names, before the index is gathered

    def apply(self, **_: Any) -> None:
        path = Path(self.env.srcdir, "book", "terms.toml")
        self.env.note_dependency(str(path))
        page = self.env.docname.removeprefix("book/")
        wanted = tomllib.loads(path.read_text(encoding="utf-8")).get(page, {})
        sections = list(self.document.findall(nodes.section))
        for heading, terms in wanted.items():
            found = [each for each in sections if heading in ("page", *each["ids"])]
            if not found:
                logger.warning("terms.toml: %s has no heading %r", page, heading)
                continue
            target = found[0]["ids"][0]
            entries = [("single", term, target, "main", None) for term in terms]
            found[0].insert(1, addnodes.index(entries=entries))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_transform(Terms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

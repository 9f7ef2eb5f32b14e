"""Turns formulas into MathML when the book is built: screen readers read it, without a script.

A formula that cannot be converted is an error of the build.
"""

from typing import Any

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)
converter = LatexToMathML(fancy_error=False)


def convert(node: nodes.math | nodes.math_block, *, display: bool) -> str:
    tex = node.astext()
    try:
        return converter.convert_with_local_state(tex, displaystyle=display)
    except LatexError as error:
        logger.warning("no MathML for %r: %s", tex, error, location=node)
        return ""


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(convert(node, display=False))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    # A formula wider than the column scrolls alone, and so must be within reach of the keyboard.
    formula = convert(node, display=True)
    self.body.append(f'<div class="math" role="group" aria-label="formula" tabindex="0">{formula}')
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

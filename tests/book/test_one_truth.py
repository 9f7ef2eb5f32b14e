"""What a page defines as a piece of the Transformer is what plain.py has."""

import ast
import re

import pytest

from helpers.pages import code_cells
from unmasked_book.workshop.reference import text

PIECES = [
    ("01_masks", "padding_mask"),
    ("01_masks", "causal_mask"),
    ("02_positional_encoding", "positions"),
    ("03_attention", "attention"),
    ("03_attention", "MultiHeadAttention"),
    ("04_feed_forward", "FeedForward"),
]


def bare(source, name):
    """The syntax of a definition, without annotations and docstrings."""
    [found] = [each for each in ast.parse(source).body if getattr(each, "name", None) == name]
    for node in ast.walk(found):
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.body = node.body[ast.get_docstring(node) is not None :]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.dump(found)


@pytest.mark.parametrize(("page", "piece"), PIECES)
def test_a_page_and_the_file_define_the_same(page, piece):
    [cell] = [
        c.source for c in code_cells(page) if re.search(rf"^(def|class) {piece}\(", c.source, re.M)
    ]
    assert bare(cell, piece) == bare(text(piece), piece)

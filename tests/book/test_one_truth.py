"""Tests that a page defines a piece of the Transformer as plain.py does."""

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
    ("05_encoder", "EncoderLayer"),
    ("06_decoder", "DecoderLayer"),
    ("07_transformer", "Transformer"),
    ("07_transformer", "generate"),
]


def bare(source, name):
    """Returns the syntax of a definition, without annotations and docstrings."""
    defined = {each.name: each for each in ast.parse(source).body if hasattr(each, "name")}
    found = defined[name]
    if isinstance(found, ast.ClassDef):  # a method may stand in a cell of its own
        found.body = [each for each in found.body if not getattr(each, "decorator_list", None)]
        found.body += [defined[own] for own in re.findall(rf"^{name}\.(\w+) = \1$", source, re.M)]
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
    named = rf"^(def|class) {piece}\(|^{piece}\.(\w+) = \2"
    cells = [re.sub("  #.*$", "", c.source, flags=re.M) for c in code_cells(page)]
    source = "\n".join(cell for cell in cells if re.search(named, cell, re.M))
    assert bare(source, piece) == bare(text(piece), piece)

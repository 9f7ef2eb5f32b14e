"""What `show` shows is what is installed."""

import inspect

import pytest

from unmasked import plain
from unmasked.plots import curves
from unmasked.transformer import Embedding
from unmasked_book import show
from unmasked_book.examples import spell


@pytest.mark.parametrize(
    ("shown", "begins"),
    [
        (curves, f"# src/unmasked/plots/lines.py\n\n{inspect.getsource(curves).rstrip()}"),
        (plain, '# src/unmasked/plain.py\n\n"""The whole'),
        (spell, "# src/unmasked_book/examples.py\n\ndef spell("),
        (pytest.Item, "# nodes.py\n\nclass Item("),  # not one of ours
        (Embedding.forward, "# src/unmasked/transformer.py\n\ndef forward(self"),  # at the margin
    ],
)
def test_the_source_stands_under_the_name_of_its_file(shown, begins):
    assert repr(show(shown)).startswith(begins)


def test_what_has_no_source_is_refused():
    names = {}
    exec("def typed_in(): ...", names)
    for wrong, got in ((3, "int"), (names["typed_in"], "function")):
        with pytest.raises(ValueError, match=f"show: .* got {got}"):
            show(wrong)

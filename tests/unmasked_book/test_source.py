"""What `show` shows is what is installed."""

import inspect

import pytest

from unmasked import plain
from unmasked.masks import causal_mask, padding_mask
from unmasked.plots import curves
from unmasked.text.phrasebook import sentence_pairs
from unmasked.transformer import Embedding
from unmasked_book import show
from unmasked_book.examples import spell


@pytest.mark.parametrize(
    ("shown", "begins"),
    [
        (curves, f"# src/unmasked/plots/lines.py\n\n{inspect.getsource(curves).rstrip()}"),
        (plain, '# src/unmasked/plain.py\n\n"""The whole'),
        (sentence_pairs, "# src/unmasked/text/phrasebook/__init__.py\n\ndef sentence_pairs"),
        (spell, "# src/unmasked_book/examples.py\n\ndef spell("),
        (pytest.Item, "# nodes.py\n\nclass Item("),  # not one of ours
        (Embedding.forward, "# src/unmasked/transformer.py\n\ndef forward(self"),  # at the margin
    ],
)
def test_the_source_stands_under_the_name_of_its_file(shown, begins):
    assert repr(show(shown)).startswith(begins)


def test_several_things_stand_one_below_the_other_as_code():
    both = show(padding_mask, causal_mask)
    assert repr(both).index("def padding_mask") < repr(both).index("def causal_mask")
    assert both._repr_markdown_() == f"```python\n{both}\n```"


def test_what_has_no_source_is_refused():
    names = {}
    exec("def typed_in(): ...", names)
    for wrong, got in ((3, "int"), (names["typed_in"], "function")):
        with pytest.raises(ValueError, match=f"show: .* got {got}"):
            show(wrong)

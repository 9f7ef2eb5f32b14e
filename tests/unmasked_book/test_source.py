"""What `show` shows is what is installed."""

import inspect

import pytest

import unmasked_book
from unmasked import plain
from unmasked.masks import causal_mask, padding_mask
from unmasked.plots import curves
from unmasked.text.phrasebook import sentence_pairs
from unmasked.transformer import Embedding
from unmasked_book import show
from unmasked_book.examples import spell


def test_it_shows_the_source_under_the_name_of_its_file():
    shown = show(curves)
    assert repr(shown) == f"# src/unmasked/plots/lines.py\n\n{inspect.getsource(curves).rstrip()}"
    assert shown._repr_markdown_() == f"```python\n{shown}\n```"


def test_several_things_stand_one_below_the_other():
    both = repr(show(padding_mask, causal_mask))
    assert both.index("def padding_mask") < both.index("def causal_mask")


def test_a_method_begins_at_the_margin():
    assert "\ndef forward(self" in repr(show(Embedding.forward))


def test_a_whole_file():
    assert repr(show(plain)).startswith('# src/unmasked/plain.py\n\n"""The whole')
    assert "def renamed(" in repr(show(plain))


def test_what_has_no_source_is_refused():
    with pytest.raises(ValueError, match=r"show: expected a function, .* or module .* got int"):
        show(3)


def test_the_file_of_a_package_is_named_in_both_packages():
    file = "# src/unmasked/text/phrasebook/__init__.py\n\n"
    assert repr(show(sentence_pairs)).startswith(f"{file}def sentence_pairs")
    assert repr(show(spell)).startswith("# src/unmasked_book/examples.py\n\ndef spell(")
    assert repr(show(unmasked_book.show)).startswith("# src/unmasked_book/source.py\n\ndef show(")


def test_what_is_defined_elsewhere_has_its_file_and_what_was_typed_in_is_refused():
    assert repr(show(test_a_whole_file)).startswith("# test_source.py")
    assert repr(show(pytest.Item)).startswith("# nodes.py\n\nclass Item(")  # not one of ours
    names = {}
    exec("def typed_in(): ...", names)
    with pytest.raises(ValueError, match=r"show: expected .* written in Python, got function"):
        show(names["typed_in"])

"""What `show` shows is what is installed."""

import inspect

import pytest

import unmasked
from unmasked.data.phrasebook import sentence_pairs
from unmasked.masks import causal_mask, padding_mask
from unmasked.transformer import Embedding


def test_it_shows_the_source_under_the_name_of_its_file():
    shown = unmasked.show(causal_mask)
    assert repr(shown) == f"# src/unmasked/masks.py\n\n{inspect.getsource(causal_mask).rstrip()}"
    assert shown._repr_markdown_() == f"```python\n{shown}\n```"


def test_several_things_stand_one_below_the_other():
    both = repr(unmasked.show(padding_mask, causal_mask))
    assert both.index("def padding_mask") < both.index("def causal_mask")


def test_a_method_begins_at_the_margin():
    assert "\ndef forward(self" in repr(unmasked.show(Embedding.forward))


def test_what_has_no_source_is_refused():
    with pytest.raises(ValueError, match=r"show: expected a function, class or method .* got int"):
        unmasked.show(3)


def test_the_file_of_a_package_is_named():
    shown = repr(unmasked.show(sentence_pairs))
    assert shown.startswith("# src/unmasked/data/phrasebook/__init__.py\n\ndef pairs")


def test_what_is_defined_elsewhere_has_its_file_and_what_was_typed_in_is_refused():
    assert repr(unmasked.show(test_the_file_of_a_package_is_named)).startswith("# test_source.py")
    names = {}
    exec("def typed_in(): ...", names)
    with pytest.raises(ValueError, match=r"show: expected .* written in Python, got function"):
        unmasked.show(names["typed_in"])

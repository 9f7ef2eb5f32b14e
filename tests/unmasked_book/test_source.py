"""What `show` shows is what is installed."""

import inspect

import pytest

import unmasked_book
from unmasked.attention import MultiHeadAttention
from unmasked.data.phrasebook import sentence_pairs
from unmasked.masks import causal_mask, padding_mask
from unmasked.plots import curves
from unmasked.transformer import Embedding
from unmasked_book import plain, show
from unmasked_book.examples import spell
from unmasked_book.source import without_checks


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
    assert repr(show(plain)).startswith('# src/unmasked_book/plain.py\n\n"""The whole')
    assert "def renamed(" in repr(show(plain))


def test_what_has_no_source_is_refused():
    with pytest.raises(ValueError, match=r"show: expected a function, .* or module .* got int"):
        show(3)


def test_the_file_of_a_package_is_named_in_both_packages():
    file = "# src/unmasked/data/phrasebook/__init__.py\n\n"
    assert repr(show(sentence_pairs)).startswith(f"{file}def sentence_pairs")
    assert repr(show(spell)).startswith("# src/unmasked_book/examples.py\n\ndef spell(")
    assert repr(show(unmasked_book.show)).startswith("# src/unmasked_book/source.py\n\ndef show(")


def test_what_is_checked_is_shown_from_its_own_file_and_without_the_check():
    assert inspect.getsource(causal_mask).startswith("@checked(contracts.causal_mask)\n")
    assert repr(show(causal_mask)).startswith("# src/unmasked/masks.py\n\ndef causal_mask(n: int")
    shown = repr(show(MultiHeadAttention))
    own = inspect.getsource(MultiHeadAttention).splitlines()
    assert shown.splitlines()[2:] == [line for line in own if "@checked(" not in line]
    assert "    @staticmethod\n    def merge(" in shown  # other decorators stay
    assert len(own) > len(shown.splitlines()[2:])


def test_a_check_may_span_lines():
    source = """class Cache:
    @property
    @checked(
        contracts.read(of=("keys", "values")),
    )
    @functools.cache
    def read(self):
        return checked(self)

    @checked(contracts.append)
    def append(self): ...
"""
    assert (
        without_checks(source)
        == """class Cache:
    @property
    @functools.cache
    def read(self):
        return checked(self)

    def append(self): ...
"""
    )


def test_what_is_defined_elsewhere_has_its_file_and_what_was_typed_in_is_refused():
    assert repr(show(test_a_check_may_span_lines)).startswith("# test_source.py")
    assert repr(show(pytest.Item)).startswith("# nodes.py\n\nclass Item(")  # not one of ours
    names = {}
    exec("def typed_in(): ...", names)
    with pytest.raises(ValueError, match=r"show: expected .* written in Python, got function"):
        show(names["typed_in"])

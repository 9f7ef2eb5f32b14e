"""The card of a shipped model, as its record makes it."""

import pytest

from model_card import card
from unmasked.translator import MODELS, shipped_models
from unmasked_book.records import recorded


@pytest.mark.parametrize("name", shipped_models())
def test_the_card_is_made_of_the_record(name):
    kept = (MODELS / name / "README.md").read_text(encoding="utf-8")
    assert kept == card(name, recorded(f"multi30k-{name}"))

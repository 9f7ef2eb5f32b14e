"""Chapter 14's models compute what the classes of Hugging Face's transformers compute."""

import pytest

from family import MODELS, compared
from unmasked_book import recorded


@pytest.mark.parametrize("name", MODELS)
def test_a_model_equals_that_of_transformers_with_the_same_weights(name):
    """transformers belongs to the pins of the tests: where it is missing, this fails."""
    found, row = compared(name), recorded("family")["rows"][name]
    for each in (found, row):
        assert each["difference"] < 1e-5
        assert each["largest"] > 1
        assert each["parameters"] == [found["parameters"][0]] * 2

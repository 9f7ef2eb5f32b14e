"""Tests the HTML that a notebook gets, and its weights as int8.

The browser's tests measure what translations lose by that.
"""

import re

import pytest
import torch

from unmasked.translator import shipped_models
from unmasked_book.live import live
from unmasked_book.live.packing import quantised


@pytest.mark.parametrize("name", shipped_models())
def test_a_notebooks_output_holds_everything(name):
    view = live(name)
    html = view._repr_html_()
    assert len(html) < 4.2e6
    own = r"www\.w3\.org|github\.com/transformer-unmasked"
    assert not re.search(rf'(src|href)="|https?://(?!{own})', html)
    assert "A caption in" in repr(view)
    assert html.count("</script>") == 1
    with pytest.raises(ValueError, match=r"model: .* de-en, en-de, got 'xx'"):
        live("xx")
    assert live(name)._repr_html_() != html  # two in one notebook do not get in each other's way


def test_a_row_of_zeros_stays_zero_and_no_number_is_off_by_more_than_half_a_step():
    matrix = torch.cat([torch.zeros(1, 5), torch.randn(20, 5)])
    whole, scale = quantised(matrix)
    assert whole.dtype == torch.int8
    assert ((whole * scale[:, None] - matrix).abs() <= scale[:, None] / 2 + 1e-6).all()

"""The figure's HTML, what a notebook gets; and the weights in it as int8.

What they lose by that is measured in the browser, by what is translated.
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
    assert not re.search(
        r'(src|href)="|https?://(?!www\.w3\.org|github\.com/transformer-unmasked)', html
    )
    assert "A caption in" in repr(view)
    assert html.count("</script>") == 1
    with pytest.raises(ValueError, match=r"model: .*'de-en' or 'en-de', got 'xx'"):
        live("xx")
    assert live(name)._repr_html_() != html  # two in one notebook do not get in each other's way


def test_a_row_of_zeros_stays_zero_and_no_number_is_off_by_more_than_half_a_step():
    matrix = torch.cat([torch.zeros(1, 5), torch.randn(20, 5)])
    whole, scale = quantised(matrix)
    assert whole.dtype == torch.int8
    assert ((whole * scale[:, None] - matrix).abs() <= scale[:, None] / 2 + 1e-6).all()

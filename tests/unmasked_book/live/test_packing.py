"""A model packed for the page: small, and the same bytes each time.

What they lose as int8 is measured in the browser, by what is translated.
"""

import pytest
import torch

from unmasked.translator import folder_of, shipped_models
from unmasked_book.live.packing import packed, quantised


@pytest.mark.parametrize("name", shipped_models())
def test_a_shipped_model_is_small_and_the_same_each_time(name: str):
    data = packed(folder_of(name))
    assert data == packed(folder_of(name))
    assert len(data) < 2.79e6


def test_a_row_of_zeros_stays_zero_and_no_number_is_off_by_more_than_half_a_step():
    matrix = torch.cat([torch.zeros(1, 5), torch.randn(20, 5)])
    whole, scale = quantised(matrix)
    assert whole.dtype == torch.int8
    assert ((whole * scale[:, None] - matrix).abs() <= scale[:, None] / 2 + 1e-6).all()

"""A picture is the same each time, has the page's width, and says what it shows."""

import io

import pytest
from PIL import Image

from unmasked import plots
from unmasked.masks import causal_mask


def test_a_picture_is_the_same_bytes_each_time_and_can_be_saved(tmp_path):
    first, second = (plots.masks({"causal": causal_mask(3)}) for _ in range(2))
    assert first._repr_png_() == second._repr_png_()
    assert repr(first) == first.words
    first.save(tmp_path / "mask.svg")
    assert "<svg" in (tmp_path / "mask.svg").read_text()
    image = Image.open(io.BytesIO(first._repr_png_()))
    assert image.size[0] == pytest.approx(6.8 * 144, abs=2)

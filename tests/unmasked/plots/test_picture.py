"""A picture is the same each time, has the page's width, and says what it shows."""

import io

import pytest
from PIL import Image

from unmasked import plots
from unmasked.masks import causal_mask
from unmasked.plots.picture import in_a_row, number


def test_a_picture_is_the_same_bytes_each_time_and_can_be_saved(tmp_path):
    def make():
        return plots.masks({"causal": causal_mask(3)})

    assert make()._repr_png_() == make()._repr_png_()
    assert repr(make()) == make().words
    make().save(tmp_path / "mask.svg")
    assert "<svg" in (tmp_path / "mask.svg").read_text()
    image = Image.open(io.BytesIO(make()._repr_png_()))
    assert image.size[0] == pytest.approx(6.8 * 144, abs=2)


def test_numbers_in_words_have_two_digits_that_count():
    found = [number(x) for x in (0.123, 12.34, 0.0000314, 1234.5)]
    assert found == ["0.12", "12", "3.1e-05", "1,234"]


@pytest.mark.parametrize(
    ("names", "columns"),
    [(["a"], 1), (["a", "b", "c", "d"], 4), (list("abcde"), 3), (list("abcdefgh"), 4),
     (["a long name that takes much room"] * 3, 2)],
)  # fmt: skip
def test_the_rows_of_a_legend_are_as_even_as_they_can_be(names, columns):
    assert in_a_row(names) == columns

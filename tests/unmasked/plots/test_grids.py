"""Tests the colours and arrays of grids, their words, and pictures."""

import io

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from PIL import Image

from helpers.refusals import refusals
from unmasked import plots
from unmasked.masks import causal_mask, padding_mask
from unmasked.plots.grids import FILL, FUTURE, MAY, OTHER, PADDED

# --- Matrices ---------------------------------------------------------------------------------

VALUES = {"small": np.array([[0.0, -1.0]]), "large": np.array([[0.5, -9.0]])}


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ({}, [(-9, 0.5), (-9, 0.5)]),
        ({"signed": True}, [(-9, 9), (-9, 9)]),
        ({"numbers": True}, [(-1, 0), (-9, 0.5)]),
        ({"numbers": True, "signed": True, "limit": 2.0}, [(-2, 2), (-2, 2)]),
    ],
)
def test_matrices_share_a_scale_or_have_their_own(options, limits):
    picture = plots.matrices(VALUES, **options, marked={"large": [(0, 1)]})
    axes = picture.figure.axes
    assert [axis.images[0].get_clim() for axis in axes[:2]] == limits
    assert np.array_equal(axes[1].images[0].get_array(), VALUES["large"])
    assert "large: 1 rows by 2 columns, values from -9 to 0.5, framed 1.2" in picture.words


# --- Masks ------------------------------------------------------------------------------------


WORDS = ["<bos>", "hi", "<pad>"]
PADDING = padding_mask(torch.tensor([[1, 5, 0]]))
BOTH = [[MAY, FUTURE, PADDED], [MAY, MAY, PADDED], [MAY, MAY, PADDED]]


@pytest.mark.parametrize(
    ("mask", "words", "expected", "said"),
    [
        (PADDING & causal_mask(3), WORDS, BOTH, f"5 of 9 pairs may attend, 3 {PADDED}, 1 {FUTURE}"),
        (PADDING, WORDS, [[MAY, MAY, PADDED]] * 3, f"6 of 9 pairs may attend, 3 {PADDED}"),
        (torch.eye(2).bool(), None, [[MAY, FUTURE], [OTHER, MAY]], f"1 {FUTURE}, 1 {OTHER}"),
    ],
)
def test_masks_are_drawn_square_by_square_with_their_reasons(mask, words, expected, said):
    picture = plots.masks({"mask": mask}, words, words)
    colours = [to_hex(square.get_facecolor()) for square in picture.figure.axes[0].patches]
    assert colours == [FILL[reason] for row in expected for reason in row]
    assert said in picture.words


# --- Attention maps, pictures and refusals ----------------------------------------------------

WEIGHTS = torch.tensor([[0.25, 0.75], [1.0, 0.0]])


def test_attention_maps_name_the_strongest_key_of_each_query():
    maps = {f"$h_{i}$": WEIGHTS if i else WEIGHTS.T for i in range(5)}
    options = {"predicted": ["a", "b"], "marked": [(1, 0)]}
    picture = plots.attention_maps(maps, ["q0", "$x_$"], ["k0", "$"], **options)
    assert np.array_equal(picture.figure.axes[1].images[0].get_array(), WEIGHTS)
    assert "$x_$ → b to k0 1.00; framed: $x_$ → b to k0" in picture.words
    assert picture._repr_png_()  # a dollar is a letter


def test_a_picture_is_the_same_bytes_each_time_and_can_be_saved(tmp_path):
    first, second = (plots.masks({"causal": causal_mask(3)}) for _ in range(2))
    assert first._repr_png_() == second._repr_png_()
    assert repr(first) == first.words
    first.save(tmp_path / "mask.svg")
    assert "<svg" in (tmp_path / "mask.svg").read_text()
    image = Image.open(io.BytesIO(first._repr_png_()))
    assert image.size[0] == pytest.approx(6.8 * 144, abs=2)


test_what_cannot_be_drawn_is_refused = refusals(
    (lambda: plots.masks({"m": torch.ones(2, 3, 3)}), "m: expected one matrix, got shape"),
    (lambda: plots.masks({"m": causal_mask(3)}, ["a"]), "queries: expected 3 labels, got 1"),
    (lambda: plots.attention_maps({"": WEIGHTS}, "ab", "cd", predicted="x"),
         "predicted: expected 2 labels, got 1"),
)  # fmt: skip

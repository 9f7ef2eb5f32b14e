"""Grids: the colours and arrays in the axes, and the words that go with them."""

import math

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from unmasked import plots
from unmasked.masks import causal_mask, padding_mask
from unmasked.plots.grids import FILL, FUTURE, MAY, OTHER, PADDED


def names(axis, side):
    return [tick.get_text() for tick in getattr(axis, f"get_{side}ticklabels")()]


# --- Matrices ---------------------------------------------------------------------------------

VALUES = {"small": np.array([[0.0, -1.0]]), "large": np.array([[0.5, -9.0]])}


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ({}, [(-9, 0.5), (-9, 0.5)]),
        ({"signed": True}, [(-9, 9), (-9, 9)]),
        ({"numbers": True}, [(-1, 0), (-9, 0.5)]),
        ({"numbers": True, "signed": True, "one_scale": True}, [(-9, 9), (-9, 9)]),
        ({"numbers": True, "signed": True, "limit": 2.0}, [(-2, 2), (-2, 2)]),
        ({"numbers": True, "limit": 0.25}, [(-1, 0.25), (-9, 0.25)]),
    ],
)
def test_matrices_share_a_scale_or_have_their_own(options, limits):
    axes = plots.matrices(VALUES, **options).figure.axes
    assert [axis.images[0].get_clim() for axis in axes[:2]] == limits
    assert np.array_equal(axes[1].images[0].get_array(), VALUES["large"])
    assert len(axes) == (2 if "numbers" in options else 3)  # the scale


def test_matrices_say_what_they_hold_and_what_is_framed():
    values = {"one": torch.eye(2), "two": torch.zeros(2, 2), "three": torch.ones(2, 3)}
    options = {"x": "column", "y": "row", "unit": "metres", "per_row": 2, "title": "changes"}
    picture = plots.matrices(values, **options, marked={"one": [(1, 0), (0, 1)]})
    assert picture.words.startswith("changes. one: 2 rows by 2 columns, values from 0 to 1, ")
    assert "framed 1.2, 2.1; two: " in picture.words
    first, second, third, empty, scale = picture.figure.axes
    middles = [frame.get_corners().mean(0).round(6).tolist() for frame in first.patches]
    assert sorted(middles) == [[0, 1], [1, 0]]
    assert not second.patches
    place = third.get_subplotspec()
    assert (place.rowspan.start, place.colspan.start) == (1, 0)
    assert not empty.get_visible()
    assert (scale.get_ylabel(), picture.figure.get_suptitle()) == ("metres", "changes")
    assert (first.get_title(), first.get_xlabel(), first.get_ylabel()) == ("one", "column", "row")


@pytest.mark.parametrize(
    ("values", "limits", "written"),
    [
        ([[-1.0, 3.0], [-math.inf, 0.5]], (-3, 3), ["−1.00", "3.00", "−∞", "0.50"]),
        ([[0.0, 0.0]], (0, 0), ["0.00", "0.00"]),
        ([[math.nan]], (0, 1), ["nan"]),
    ],
)
def test_numbers_are_written_into_the_cells(values, limits, written):
    labels = [f"word {i}" for i in range(len(values[0]))]
    options = {"rows": labels[: len(values)], "columns": labels, "numbers": True, "signed": True}
    [axis] = plots.matrices({"": torch.tensor(values)}, **options).figure.axes
    assert [text.get_text() for text in axis.texts] == written
    assert axis.images[0].get_clim() == pytest.approx(limits, abs=1e-2)
    assert names(axis, "x") == labels
    assert list(axis.get_yticks()) == [*range(len(values))]


# --- Masks ------------------------------------------------------------------------------------


def drawn(axis):
    """The colours of a mask's squares, as rows of the names that FILL gives them."""
    reasons = {colour: name for name, colour in FILL.items()}
    height, width = (round(abs(a - b)) for a, b in (axis.get_ylim(), axis.get_xlim()))
    rows = [[""] * width for _ in range(height)]
    for square in axis.patches:
        column, row = (round(place + 0.5) for place in square.get_xy())
        rows[row][column] = reasons[to_hex(square.get_facecolor())]
    return rows


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
    [axis] = picture.figure.axes
    assert drawn(axis) == expected
    assert axis.get_title() == "mask"
    assert names(axis, "y") == (words or [str(i) for i in range(len(expected))])
    assert said in picture.words
    legend = [text.get_text() for text in picture.figure.legends[0].get_texts()]
    assert legend == [reason for reason in FILL if any(reason in row for row in expected)]


def test_the_three_masks_of_a_batch_stand_in_a_row_for_each_sentence():
    source, target = torch.tensor([[3, 4], [3, 0]]), torch.tensor([[1, 5, 6], [1, 5, 0]])
    read, written = [["a", "b"], ["a", "<pad>"]], [["<bos>", "x", "y"], ["<bos>", "x", "<pad>"]]
    masks = {"encoder": padding_mask(source), "cross": padding_mask(source)}
    decoder = padding_mask(target) & causal_mask(3)
    picture = plots.batch_masks(read, written, **masks, decoder=decoder)
    axes = picture.figure.axes
    assert [axis.get_title() for axis in axes] == ["encoder", "decoder", "cross-attention"] * 2
    sizes = [(len(drawn(axis)), len(drawn(axis)[0])) for axis in axes[3:]]
    assert sizes == [(2, 2), (3, 3), (3, 2)]
    assert drawn(axes[5]) == [[MAY, PADDED]] * 3
    assert "cross-attention, “<bos> x <pad>” over “a <pad>”: 3 of 6 pairs" in picture.words


# --- Attention maps, batches and refusals -----------------------------------------------------

WEIGHTS = torch.tensor([[0.25, 0.75], [1.0, 0.0]])


def test_attention_maps_name_the_strongest_key_of_each_query():
    maps = {f"head {i}": WEIGHTS if i else WEIGHTS.T for i in range(5)}
    picture = plots.attention_maps(maps, ["q0", "q1"], ["k0", "k1"])
    shown = [axis for axis in picture.figure.axes[:-1] if axis.get_visible()]  # the last: colours
    assert [axis.get_title() for axis in shown] == list(maps)
    assert np.array_equal(shown[1].images[0].get_array(), WEIGHTS)
    assert {axis.images[0].get_clim() for axis in shown} == {(0, 1)}
    assert "head 1: q0 to k1 0.75, q1 to k0 1.00; " in picture.words
    one, two = (plots.attention_maps(dict.fromkeys(x, WEIGHTS), "xy", "xy") for x in ("a", "ab"))
    assert one.figure.get_size_inches()[1] > two.figure.get_size_inches()[1]


def test_a_decoders_rows_name_the_token_read_and_the_next_one():
    words = ["<bos>", "$x_$"], ["k0", "$"]
    options = {"predicted": ["a", "b"], "marked": [(1, 0)]}
    picture = plots.attention_maps({"$h_1$": WEIGHTS}, *words, **options)
    [axis, _] = picture.figure.axes  # and the scale of colours
    assert names(axis, "y") == ["<bos> → a", "$x_$ → b"]
    assert "$x_$ → b to k0 1.00; framed: $x_$ → b to k0" in picture.words
    [frame] = axis.patches
    assert (frame.get_xy(), frame.get_width(), frame.get_height()) == ((-0.5, 0.5), 1, 1)
    assert picture._repr_png_()  # a dollar is a letter
    assert not plots.attention_maps({"x": WEIGHTS}, *words).figure.axes[0].patches


def test_the_maps_of_a_sentence_stand_side_by_side():
    maps = {"encoder": torch.eye(2), "decoder": torch.ones(3, 3).tril(), "cross": torch.ones(3, 2)}
    picture = plots.sentence_maps(["a", "b"], ["x", "y", "z"], **maps)
    arrays = [axis.images[0].get_array() for axis in picture.figure.axes[:3]]
    assert all(map(np.array_equal, arrays, maps.values()))
    assert "cross-attention: x to a 1.00" in picture.words


def test_batches_show_words_and_padding():
    tokens = {"a": torch.tensor([[3, 2, 0, 0], [4, 5, 6, 2]]), "b": torch.ones(3, 2)}
    picture = plots.batches(tokens)
    first, second = picture.figure.axes
    [mesh] = first.collections
    assert mesh.get_array().astype(int).tolist() == [[0, 0, 1, 1], [0, 0, 0, 0]]
    assert (first.get_title(), first.get_xlabel()) == ("a", "25% padding")
    assert (second.get_title(), second.get_xlabel()) == ("b", "0% padding")
    assert "a: 2 sentences in 4 places, 25% padding; b: " in picture.words
    assert first.yaxis_inverted()


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.masks({"m": torch.ones(2, 3, 3)}), "m: expected one matrix, got shape"),
        (lambda: plots.matrices({"m": [[1.0]]}), "m: expected a Tensor or a ndarray, got list"),
        (lambda: plots.masks({"m": causal_mask(3)}, ["a"]), "queries: expected 3 labels, got 1"),
        (lambda: plots.attention_maps({"": WEIGHTS}, "ab", "cd", predicted="x"),
         "predicted: expected 2 labels, got 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()

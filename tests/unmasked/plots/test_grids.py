"""Grids: the colours and arrays in the axes, and the words that go with them."""

import math

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from unmasked import plots
from unmasked.masks import causal_mask, padding_mask
from unmasked.plots.grids import FILL, FUTURE, MAY, OTHER, PADDED

# --- Matrices ---------------------------------------------------------------------------------


def test_matrices_share_a_scale_or_show_their_numbers():
    one, two = torch.tensor([[0.0, 1.0]]), torch.tensor([[2.0, 4.0]])
    picture = plots.matrices({"one": one, "two": two}, x="column", y="row")
    images = [axis.images[0] for axis in picture.figure.axes[:2]]
    assert np.array_equal(images[1].get_array(), two)
    assert [image.get_clim() for image in images] == [(0, 4), (0, 4)]
    assert picture.words == (
        "Heat maps. one: 1 rows by 2 columns, values from 0 to 1; "
        "two: 1 rows by 2 columns, values from 2 to 4."
    )
    numbered = plots.matrices({"one": one, "two": two}, numbers=True).figure
    assert [axis.images[0].get_clim() for axis in numbered.axes] == [(0, 1), (2, 4)]
    assert [text.get_text() for text in numbered.axes[0].texts] == ["0.00", "1.00"]


def test_a_scale_says_what_it_measures():
    [_, scale] = plots.matrices({"": torch.eye(2)}, unit="metres").figure.axes
    assert scale.get_ylabel() == "metres"


def test_marked_cells_of_matrices_have_a_frame():
    values = {"one": torch.eye(2), "two": torch.zeros(2, 2)}
    picture = plots.matrices(values, marked={"one": [(1, 0), (0, 1)]})
    first, second = picture.figure.axes[:2]
    middles = [frame.get_corners().mean(0).tolist() for frame in first.patches]
    assert sorted(np.round(middles, 6).tolist()) == [[0, 1], [1, 0]]
    assert all(frame.get_width() < 1 for frame in first.patches)  # inside its own cell
    assert not second.patches
    assert "values from 0 to 1, framed 1.2, 2.1; two" in picture.words


def test_matrices_continue_below_where_a_row_is_full():
    figure = plots.matrices({name: torch.eye(2) for name in "abc"}, per_row=2).figure
    places = [axis.get_subplotspec() for axis in figure.axes[:3]]
    assert [(at.rowspan.start, at.colspan.start) for at in places] == [(0, 0), (0, 1), (1, 0)]
    assert not figure.axes[3].get_visible()


def test_one_scale_can_serve_matrices_with_numbers():
    values = {"small": np.array([[0.0, -1.0]]), "large": np.array([[0.5, -9.0]])}
    for one_scale, expected in ((False, [(-1, 1), (-9, 9)]), (True, [(-9, 9), (-9, 9)])):
        options = {"numbers": True, "signed": True, "one_scale": one_scale}
        axes = plots.matrices(values, **options).figure.axes
        assert [axis.images[0].get_clim() for axis in axes] == expected


def test_signed_matrices_have_zero_in_the_middle_and_infinity_is_written_out():
    values = torch.tensor([[-1.0, 3.0], [-torch.inf, 0.5]])
    [axis] = plots.matrices({"": values}, numbers=True, signed=True).figure.axes
    assert axis.images[0].get_clim() == (-3, 3)
    assert [text.get_text() for text in axis.texts] == ["−1.00", "3.00", "−∞", "0.50"]


def test_a_single_attention_map_is_larger_and_in_the_middle():
    one, two = ({name: torch.eye(3) for name in names} for names in ("a", "ab"))
    alone, beside = (plots.attention_maps(maps, "xyz", "xyz").figure for maps in (one, two))
    assert alone.get_size_inches()[1] > beside.get_size_inches()[1]
    layouts = [type(figure.get_layout_engine()).__name__ for figure in (alone, beside)]
    assert layouts == ["ConstrainedLayoutEngine"] * 2
    assert [figure.get_layout_engine()._compress for figure in (alone, beside)] == [True, False]


def test_colours_may_end_before_the_values_and_maps_may_share_a_title():
    values = {"small": np.array([[0.0, -1.0]]), "large": np.array([[0.5, -9.0]])}
    options = {"numbers": True, "signed": True, "limit": 2.0, "title": "changes"}
    picture = plots.matrices(values, **options)
    assert [axis.images[0].get_clim() for axis in picture.figure.axes] == [(-2, 2), (-2, 2)]
    assert picture.figure.get_suptitle() == "changes"
    assert picture.words.startswith("changes. small: ")
    unsigned = plots.matrices(values, numbers=True, limit=0.25).figure
    assert [axis.images[0].get_clim() for axis in unsigned.axes] == [(-1, 0.25), (-9, 0.25)]


@pytest.mark.parametrize("value", [0.0, math.nan])
def test_a_matrix_of_zeros_or_without_any_number_is_drawn(value):
    picture = plots.matrices({"": np.full((2, 2), value)}, numbers=True, signed=True)
    assert [text.get_text() for text in picture.figure.axes[0].texts] == [f"{value:.2f}"] * 4


def test_labels_of_a_matrix_stand_where_they_belong():
    labels = ["ich", "bier"]
    [axis] = plots.matrices({"": torch.eye(2)}, labels, labels, numbers=True).figure.axes
    assert [tick.get_text() for tick in axis.get_xticklabels()] == labels
    assert list(axis.get_yticks()) == [0, 1]


# --- Masks ------------------------------------------------------------------------------------


def drawn(axis):
    """The colours of a mask's squares, as rows of the names that FILL gives them."""
    names = {colour: name for name, colour in FILL.items()}
    height, width = (round(abs(a - b)) for a, b in (axis.get_ylim(), axis.get_xlim()))
    rows = [[""] * width for _ in range(height)]
    for square in axis.patches:
        column, row = (round(place + 0.5) for place in square.get_xy())
        rows[row][column] = names[to_hex(square.get_facecolor())]
    return rows


def test_masks_are_drawn_square_by_square_with_their_reasons():
    picture = plots.masks({"causal": causal_mask(3)})
    [axis] = picture.figure.axes
    assert drawn(axis) == [[MAY, FUTURE, FUTURE], [MAY, MAY, FUTURE], [MAY, MAY, MAY]]
    assert axis.get_title() == "causal"
    assert (
        "causal, queries over keys: 6 of 9 pairs may attend, 3 hidden: the future" in picture.words
    )


def test_what_padding_hides_is_told_from_what_the_future_hides():
    tokens = torch.tensor([[1, 5, 0, 0]])
    words = ["<bos>", "hi", "<pad>", "<pad>"]
    mask = padding_mask(tokens) & causal_mask(4)
    [axis] = plots.masks({"": mask}, words, words).figure.axes
    assert drawn(axis)[0] == [MAY, FUTURE, PADDED, PADDED]
    assert drawn(axis)[3] == [MAY, MAY, PADDED, PADDED]
    assert [tick.get_text() for tick in axis.get_yticklabels()] == words


def test_what_is_hidden_for_no_reason_we_know_is_named_hidden():
    [axis] = plots.masks({"": torch.tensor([[True, False], [False, True]])}).figure.axes
    assert drawn(axis) == [[MAY, FUTURE], [OTHER, MAY]]


def test_the_three_masks_of_a_batch_stand_in_a_row_for_each_sentence():
    source, target = torch.tensor([[3, 4], [3, 0]]), torch.tensor([[1, 5, 6], [1, 5, 0]])
    said, written = [["a", "b"], ["a", "<pad>"]], [["<bos>", "x", "y"], ["<bos>", "x", "<pad>"]]
    picture = plots.batch_masks(
        said,
        written,
        encoder=padding_mask(source),
        decoder=padding_mask(target) & causal_mask(3),
        cross=padding_mask(source),
    )
    axes = picture.figure.axes
    assert [axis.get_title() for axis in axes] == ["encoder", "decoder", "cross-attention"] * 2
    assert [(len(drawn(axis)), len(drawn(axis)[0])) for axis in axes[3:]] == [
        (2, 2),
        (3, 3),
        (3, 2),
    ]
    assert drawn(axes[5]) == [[MAY, PADDED]] * 3
    assert "cross-attention, “<bos> x <pad>” over “a <pad>”: 3 of 6 pairs" in picture.words
    legend = [text.get_text() for text in picture.figure.legends[0].get_texts()]
    assert legend == [MAY, PADDED, FUTURE]


# --- Attention maps ---------------------------------------------------------------------------


def test_attention_maps_name_the_strongest_key_of_each_query():
    weights = torch.tensor([[0.25, 0.75], [1.0, 0.0]])
    maps = {f"head {i}": weights if i else weights.T for i in range(5)}
    picture = plots.attention_maps(maps, ["q0", "q1"], ["k0", "k1"])
    shown = [axis for axis in picture.figure.axes[:-1] if axis.get_visible()]  # the last: colours
    assert [axis.get_title() for axis in shown] == list(maps)
    assert np.array_equal(shown[1].images[0].get_array(), weights)
    assert {axis.images[0].get_clim() for axis in shown} == {(0, 1)}
    assert "head 1: q0 to k1 0.75, q1 to k0 1.00; " in picture.words


def test_a_decoders_rows_name_the_token_read_and_the_next_one():
    weights = torch.tensor([[0.25, 0.75], [1.0, 0.0]])
    maps = {"x": weights}
    picture = plots.attention_maps(maps, ["<bos>", "a"], ["k0", "k1"], predicted=["a", "b"])
    [axis, _] = picture.figure.axes  # and the scale of colours
    assert [tick.get_text() for tick in axis.get_yticklabels()] == ["<bos> → a", "a → b"]
    assert axis.get_ylabel() == "token read → next token"
    assert "x: <bos> → a to k1 0.75, a → b to k0 1.00" in picture.words
    with pytest.raises(ValueError, match="predicted: expected 2 labels"):
        plots.attention_maps(maps, ["<bos>", "a"], ["k0", "k1"], predicted=["a"])


def test_the_maps_of_a_sentence_stand_side_by_side():
    encoder, decoder, cross = torch.eye(2), torch.ones(3, 3).tril(), torch.ones(3, 2)
    picture = plots.sentence_maps(
        ["a", "b"], ["x", "y", "z"], encoder=encoder, decoder=decoder, cross=cross
    )
    drawn_arrays = [axis.images[0].get_array() for axis in picture.figure.axes[:3]]
    assert [array.shape for array in drawn_arrays] == [(2, 2), (3, 3), (3, 2)]
    assert np.array_equal(drawn_arrays[1], decoder)
    assert "cross-attention: x to a 1.00, y to a 1.00, z to a 1.00." in picture.words


def test_marked_pairs_get_a_frame():
    weights = torch.tensor([[0.9, 0.1], [0.3, 0.7]])
    picture = plots.attention_maps({"x": weights}, ["i", "go"], ["ich", "gehe"], marked=[(1, 1)])
    [axis, _] = picture.figure.axes  # and the scale of colours
    [frame] = axis.patches
    assert (frame.get_xy(), frame.get_width(), frame.get_height()) == ((0.5, 0.5), 1, 1)
    assert picture.words.endswith("x: i to ich 0.90, go to gehe 0.70; framed: go to gehe.")
    assert (
        not plots.attention_maps({"x": weights}, ["i", "go"], ["ich", "gehe"])
        .figure.axes[0]
        .patches
    )


# --- Batches ----------------------------------------------------------------------------------


def test_batches_show_words_and_padding():
    picture = plots.batches(
        {"a": torch.tensor([[3, 2, 0, 0], [4, 5, 6, 2]]), "b": torch.ones(3, 2)}
    )
    first, second = picture.figure.axes
    [mesh] = first.collections
    assert mesh.get_array().astype(int).tolist() == [[0, 0, 1, 1], [0, 0, 0, 0]]
    assert (first.get_title(), first.get_xlabel()) == ("a", "25% padding")
    assert (second.get_title(), second.get_xlabel()) == ("b", "0% padding")
    assert "a: 2 sentences in 4 places, 25% padding; b: 3 sentences in 2 places" in picture.words
    assert first.yaxis_inverted()


# --- Refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.masks({"m": torch.ones(2, 3, 3)}), "m: expected one matrix, got shape"),
        (lambda: plots.matrices({"m": torch.ones(3)}), "m: expected one matrix, got shape"),
        (lambda: plots.matrices({"m": [[1.0]]}), "m: expected a Tensor or a ndarray, got list"),
        (
            lambda: plots.masks({"m": causal_mask(3)}, queries=["a"]),
            "queries: expected 3 labels, got 1; give one for each row or column drawn",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_maps_of_the_same_tokens_are_named_once():
    """At the left and at the bottom: so that the maps have the room that labels would take."""
    weights = {name: torch.rand(3, 3) for name in "abcd"}
    axes = plots.attention_maps(weights, list("xyz"), list("xyz"), per_row=2).figure.axes[:4]
    for axis, (left, bottom) in zip(axes, ((1, 0), (0, 0), (1, 1), (0, 1)), strict=True):
        ticks = axis.yaxis.get_major_ticks()[0], axis.xaxis.get_major_ticks()[0]
        assert tuple(tick.label1.get_visible() for tick in ticks) == (left, bottom)


def test_a_dollar_is_a_letter():
    words = ["$x_$", "$"]
    picture = plots.attention_maps({"$h_1$": torch.eye(2)}, words, words)
    assert picture._repr_png_()
    assert [t.get_text() for t in picture.figure.axes[0].get_yticklabels()] == words

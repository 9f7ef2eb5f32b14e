"""Curves and bars: the numbers in the axes, and the words that go with them."""

import pytest
import torch

from unmasked import plots


def test_curves_draw_the_numbers_they_are_given():
    picture = plots.curves(
        {"up": [1, 2, 3], "down": torch.tensor([3.0, 2.0, 0.5])},
        x=[10, 20, 30],
        xlabel="step",
        ylabel="loss",
        title="Training",
        log_y=True,
        log_x=True,
        mark=(20, "half way"),
    )
    [axis] = picture.figure.axes
    assert [list(line.get_ydata()) for line in axis.lines[:2]] == [[1, 2, 3], [3, 2, 0.5]]
    assert list(axis.lines[0].get_xdata()) == [10, 20, 30]
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    assert len({(line.get_color(), line.get_linestyle()) for line in axis.lines[:2]}) == 2
    assert picture.words == (
        "Training. loss over step. up goes from 1 at 10 to 3 at 30, lowest 1, highest 3; down goes "
        "from 3 at 10 to 0.5 at 30, lowest 0.5, highest 3; a vertical line at 20: half way."
    )


def test_a_few_places_on_a_logarithmic_axis_are_all_named():
    places = [2, 4, 8, 16, 32]
    options = {"xlabel": "layers", "ylabel": "y", "log_x": True}
    [axis] = plots.curves({"a": range(5)}, x=places, **options).figure.axes
    assert [tick.get_text() for tick in axis.get_xticklabels()] == [str(place) for place in places]
    many = plots.curves({"a": range(20)}, x=range(1, 21), **options).figure.axes[0]
    assert len(many.get_xticks()) != 20


def test_the_upright_axis_begins_where_it_is_told_to():
    options = {"xlabel": "x", "ylabel": "y"}
    assert plots.curves({"a": [5, 6]}, low=0.0, **options).figure.axes[0].get_ylim()[0] == 0
    assert plots.curves({"a": [5, 6]}, **options).figure.axes[0].get_ylim()[0] > 4


def test_a_line_can_have_the_same_colour_in_several_figures():
    options = {"xlabel": "step", "ylabel": "loss"}
    numbers = {"a": 0, "b": 1, "c": 2}
    all_lines = plots.curves({name: [1, 2] for name in numbers}, **options).figure.axes[0].lines
    [only] = plots.curves({"c": [1, 2]}, **options, colours=numbers).figure.axes[0].lines
    assert (only.get_color(), only.get_linestyle()) == (
        all_lines[2].get_color(), all_lines[2].get_linestyle(),
    )  # fmt: skip


def test_curves_count_from_zero_without_x():
    [axis] = plots.curves({"a": [5, 6]}, xlabel="", ylabel="").figure.axes
    assert list(axis.lines[0].get_xdata()) == [0, 1]


def test_bars_stand_in_groups_with_their_numbers():
    series = {"before": [0.25, 0.5], "after": [0.75, 1.0]}
    picture = plots.bars(series, ["one", "two"], xlabel="share", title="Shares", most=1.5, mark=1)
    [axis] = picture.figure.axes
    assert [patch.get_width() for patch in axis.patches] == [0.25, 0.5, 0.75, 1.0]
    middles = [patch.get_y() + patch.get_height() / 2 for patch in axis.patches]
    assert middles == pytest.approx([-0.2, 0.8, 0.2, 1.2])
    assert [text.get_text() for text in axis.texts] == ["0.25", "0.50", "0.75", "1.00"]
    assert axis.get_xlim() == (0, 1.5)
    assert axis.yaxis_inverted()
    assert axis.lines[0].get_xdata() == [1, 1]
    assert "one 0.75, two 1.00; a line stands at 1." in picture.words
    assert "before: one 0.25, two 0.50; after: one 0.75" in picture.words
    assert len(picture.figure.legends) == 1


def test_one_series_needs_no_legend_and_a_missing_bar_is_refused():
    picture = plots.bars({"x": [12.34]}, ["one"], xlabel="%", digits=1)
    assert not picture.figure.legends
    assert picture.words == "Bars of %. x: one 12.3."
    with pytest.raises(ValueError, match="x: expected 2 values, got 1; give one for each name"):
        plots.bars({"x": [1.0]}, ["one", "two"], xlabel="")


def test_lines_of_another_length_are_refused():
    with pytest.raises(ValueError, match="a: expected 1 values, got shape"):
        plots.curves({"a": [1, 2]}, x=[1], xlabel="", ylabel="")


def test_a_logarithmic_axis_of_few_powers_has_labels_between_them():
    def labels(values):
        picture = plots.curves({"a": values}, [1, 2], xlabel="n", ylabel="ms", log_y=True)
        picture.figure.canvas.draw()
        [axis] = picture.figure.axes
        low, high = axis.get_ylim()
        return [
            text.get_text()
            for text, place in zip(axis.get_yticklabels(), axis.get_yticks(), strict=True)
            if low <= place <= high
        ]

    assert labels([2, 90]) == ["2", "5", "10", "20", "50", "100"]
    assert all("10^" in text for text in labels([0.001, 9000]))


def test_powers_of_ten_are_written_as_powers():
    picture = plots.curves({"a": [1, 10, 1e4]}, xlabel="", ylabel="", log_y=True)
    assert picture._repr_png_()
    labels = picture.figure.axes[0].get_yticklabels()
    assert any("$" in label.get_text() and label.get_parse_math() for label in labels)


def test_a_line_has_no_point_where_its_value_is_nan():
    picture = plots.curves({"a": [float("nan"), 2.0, 1.0], "b": [3.0, 4.0, 5.0]}, [1, 2, 3],
                     xlabel="x", ylabel="y")  # fmt: skip
    first, second = picture.figure.axes[0].lines
    assert first.get_xydata().tolist() == [[2, 2], [3, 1]]
    assert len(second.get_xydata()) == 3
    assert "a goes from 2 at 2 to 1 at 3, lowest 1, highest 2" in picture.words

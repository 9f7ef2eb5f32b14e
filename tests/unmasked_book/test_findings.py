"""Verdicts of `check` in a grid: each cell says which, and so do the words."""

import pytest
import torch
from matplotlib.colors import to_hex

import unmasked
from helpers import small_model
from unmasked.checking.report import CLAIMS
from unmasked_book.findings import FAULT, FILL, HEALTHY, SOMETIMES, UNASKED, UNCOUNTED, findings


def cells(picture, columns=CLAIMS):
    """The kinds of each row's cells, by their colours."""
    kinds = {fill: kind for kind, fill in FILL.items()}
    found = [kinds[to_hex(patch.get_facecolor())] for patch in picture.figure.axes[0].patches]
    return [found[i : i + len(columns)] for i in range(0, len(found), len(columns))]


def test_each_cell_has_the_colour_of_its_verdict():
    third = dict.fromkeys(CLAIMS, "passed") | {"tied": "note", "order": "not counted"}
    second = {"runs": "ok", "cached": "not offered"}
    picture = findings({"one": {"runs": "fault"}, "two": second, "three": third})
    one, two, three = cells(picture)
    assert one == [FAULT, *[UNASKED] * 10]
    assert two == [HEALTHY, *[UNASKED] * 10]
    assert three == [UNCOUNTED if claim == "order" else HEALTHY for claim in CLAIMS]
    [axis], [legend] = picture.figure.axes, picture.figure.legends
    assert [text.get_text() for text in axis.get_yticklabels()] == ["one", "two", "three"]
    assert [text.get_text() for text in axis.get_xticklabels()] == list(CLAIMS)
    assert [text.get_text() for text in legend.get_texts()] == [FAULT, UNCOUNTED, HEALTHY, UNASKED]
    assert picture.words == "Faults that were found, by model. one: runs; two: none; three: none."


def test_other_tests_have_columns_of_their_own():
    columns = ["first", "second", "third"]
    given = {"one": {"first": SOMETIMES, "third": FAULT, "fourth": FAULT}}
    picture = findings(given, columns)
    assert cells(picture, columns) == [[SOMETIMES, UNASKED, FAULT]]
    [axis] = picture.figure.axes
    assert [text.get_text() for text in axis.get_xticklabels()] == columns
    assert picture.words == "Faults that were found, by model. one: third; with some seeds: first."


def test_a_report_knows_its_verdicts():
    torch.manual_seed(0)
    report = unmasked.check(small_model(), quiet=True)
    assert list(report.verdicts) == list(CLAIMS)
    [row] = cells(findings({"ours": report.verdicts}))
    assert row == [HEALTHY] * len(CLAIMS)


def test_an_unknown_verdict_is_refused():
    with pytest.raises(ValueError, match=r"mine: expected 'fault' or .*, got 'odd'"):
        findings({"mine": {"runs": "odd"}})


@pytest.mark.parametrize("count", [8, 40])
def test_a_row_has_the_same_height_however_many_there_are(count):
    picture = findings({str(i): {} for i in range(count)})
    picture.figure.canvas.draw()
    [axis] = picture.figure.axes
    height = axis.get_window_extent().height / picture.figure.dpi / count
    assert 0.1 < height < 0.4

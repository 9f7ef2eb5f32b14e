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
    assert picture.words == "Faults that were found, by model. one: runs; two: none; three: none."


def test_other_tests_have_columns_of_their_own():
    columns = ["first", "second", "third"]
    given = {"one": {"first": SOMETIMES, "third": FAULT, "fourth": FAULT}}
    picture = findings(given, columns)
    assert cells(picture, columns) == [[SOMETIMES, UNASKED, FAULT]]
    assert picture.words == "Faults that were found, by model. one: third; with some seeds: first."


def test_a_report_knows_its_verdicts_and_an_unknown_one_is_refused():
    torch.manual_seed(0)
    verdicts = unmasked.check(small_model(), quiet=True).verdicts
    assert list(verdicts) == list(CLAIMS)
    assert cells(findings({"ours": verdicts})) == [[HEALTHY] * len(CLAIMS)]
    with pytest.raises(ValueError, match=r"mine: expected 'fault' .* got 'odd'"):
        findings({"mine": {"runs": "odd"}})

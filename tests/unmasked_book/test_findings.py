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
    columns = ["first", "second", "third", "last"]
    given = {
        "one": {"first": SOMETIMES, "third": FAULT, "fourth": FAULT},
        "two": {"first": "passed", "second": "note", "third": "not counted", "last": "not offered"},
    }
    picture = findings(given, columns)
    one, two = cells(picture, columns)
    assert one == [SOMETIMES, UNASKED, FAULT, UNASKED]
    assert two == [HEALTHY, HEALTHY, UNCOUNTED, UNASKED]
    said = "Faults that were found, by model. one: third; with some seeds: first; two: none."
    assert picture.words == said


def test_a_report_knows_its_verdicts_and_an_unknown_one_is_refused():
    torch.manual_seed(0)
    verdicts = unmasked.check(small_model(), quiet=True).verdicts
    assert list(verdicts) == list(CLAIMS)
    assert cells(findings({"ours": verdicts})) == [[HEALTHY] * len(CLAIMS)]
    with pytest.raises(ValueError, match=r"mine: expected 'fault' .* got 'odd'"):
        findings({"mine": {"runs": "odd"}})

"""The rules that are printed are those of the file, one for each experiment."""

import pytest

from unmasked_book.experiments import EXPERIMENTS, TIMED
from unmasked_book.experiments.rules import PARTS, rule, section


def test_every_experiment_has_a_rule():
    real_text = {name for name in EXPERIMENTS if name.startswith("captions")}
    assert set(PARTS) == {*EXPERIMENTS, *TIMED, "captions"} - real_text


def test_a_rule_is_printed_without_its_marks():
    text = rule("heads")
    assert text.startswith(
        "Claim: Several heads are better than one of the same whole width.\nRule: "
    )
    assert "*" not in text


def test_sections_are_found_whole():
    assert section("For all claims").endswith("not tested.")
    assert "Until 2026-11-23 there was no such file" in section("History")
    with pytest.raises(ValueError, match="title: expected"):
        section("Odd")

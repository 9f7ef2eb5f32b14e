"""What benchmarks/others.py makes of files and models, and that its record is complete."""

import pytest

import others as command
from unmasked import Transformer, TransformerConfig
from unmasked.checking.report import CLAIMS
from unmasked.masks import padding_mask
from unmasked_book.records import recorded

# --- Rows -------------------------------------------------------------------------------------


def ours():
    sizes = {"d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 32}
    return Transformer(TransformerConfig(**command.WORDS, **sizes))


def without_causal_mask(model, source, target):
    return model(source, target, target_mask=padding_mask(target))


@pytest.fixture
def a_single_seed(monkeypatch):
    """A row takes seconds with each seed; how faults are counted has a test of its own."""
    monkeypatch.setattr(command, "SEEDS", 1)


def plainly(model, source, target):
    return model(source, target)


def other_of(forward, **options):
    return command.Other("ours", "here", "1", "https://…", "tokens", ours, forward, **options)


def made_of(forward, **options):
    findings = command.row(other_of(forward, **options))["findings"]
    return {finding["property"]: finding for finding in findings}


@pytest.mark.usefixtures("a_single_seed")
def test_the_row_of_a_healthy_model():
    found = made_of(plainly)
    assert list(found) == list(CLAIMS)
    verdicts = {finding["verdict"] for finding in found.values()}
    assert verdicts == {"ok", "note", "not offered"}  # a key's bias is a note
    assert not any("input" in finding or "in float64" in finding for finding in found.values())


def test_what_is_planted_is_found_with_every_seed():
    assert command.planted(other_of(plainly), ["padding"]) == {"padding": command.SEEDS}


@pytest.mark.usefixtures("a_single_seed")
def test_a_fault_is_kept_with_its_smallest_input():
    found = made_of(without_causal_mask)
    assert (found["causality"]["verdict"], found["own words"]["verdict"]) == ("fault", "ok")
    shown = found["causality"]["input"]
    assert (shown["source"], shown["target"], shown["output"]) == ([5], [6, 7], 0)
    assert shown["beside"] == {"source": [5], "target": [6, 8]}


ROWS = recorded("others")["rows"]


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_each_recorded_row_was_tested_with_every_seed_and_its_faults_have_a_reading(row):
    assert [finding["property"] for finding in row["findings"]] == list(CLAIMS)
    faulty = {each["property"] for each in row["findings"] if each["verdict"] == "fault"}
    assert row["faults"] == dict.fromkeys(faulty, command.SEEDS) == row["enlarged"]["faults"]
    assert row["planted"] == dict.fromkeys(command.PLANTED.keys() - faulty, command.SEEDS)
    for finding in row["findings"]:
        if finding["verdict"] == "fault":
            assert {"source", "target"} <= finding["input"].keys()
            explained = "explained" in finding
            assert explained or finding.get("reading", "not read yet") != "not read yet"

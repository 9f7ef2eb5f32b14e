"""What benchmarks/compiled.py measures and records, and that the record is complete."""

import json
import sys

import compiled
from unmasked_book.records import recorded


def test_both_ways_are_measured_in_turns_and_recorded(monkeypatch, tmp_path):
    asked, timed = [], iter(range(1, 100))

    def step(_, __, recipe, ___):
        asked.append(recipe.compile)
        return lambda: recipe.compile

    monkeypatch.setattr(compiled, "training_step", step)
    monkeypatch.setattr(compiled, "seconds", lambda *_: float(next(timed)))
    monkeypatch.setattr("unmasked_book.records.RECORDS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks/compiled.py", "--rounds", "3"])
    compiled.main()
    kept = json.loads((tmp_path / "compiled-cpu.json").read_text())
    assert asked == [False, True] * len(compiled.WIDTHS)
    assert [each["width"] for each in kept["widths"]] == list(compiled.WIDTHS)
    assert kept["widths"][0]["later"] == {"as written": 3, "compiled": 4}  # of 1, 3, 5 and 2, 4, 6
    assert {"as written", "compiled"} == kept["widths"][0]["first"].keys()
    assert kept["machine"]["command"] == "python benchmarks/compiled.py --rounds 3"


def test_the_record_is_of_both_widths():
    kept = recorded("compiled-cpu")
    assert [each["width"] for each in kept["widths"]] == list(compiled.WIDTHS)
    assert kept["machine"]["threads"] == 1

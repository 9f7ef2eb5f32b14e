"""What benchmarks/compiled.py measures and records, and that the record is complete."""

import json
import os
import sys

import pytest
import torch

import compiled
from unmasked_book.records import recorded


@pytest.mark.parametrize(
    ("options", "name"), [([], "compiled-cpu"), (["--record", "here"], "here")]
)
def test_both_ways_are_measured_in_turns_and_recorded(monkeypatch, tmp_path, options, name):
    asked, timed, caches = [], iter(range(1, 100)), set()

    def step(_, __, recipe, ___):
        asked.append(recipe.compile)
        return lambda: recipe.compile

    def decode(on):
        asked.append(on)
        caches.add(os.environ["TORCHINDUCTOR_CACHE_DIR"])
        return lambda: on

    monkeypatch.setattr(compiled, "training_step", step)
    monkeypatch.setattr(compiled, "decoding_step", lambda _, __, ___, *, compiled: decode(compiled))
    monkeypatch.setattr(torch, "compile", lambda function: function)
    monkeypatch.setattr(compiled, "seconds", lambda *_: float(next(timed)))
    monkeypatch.setattr(compiled, "profiled", lambda *_: {"mm": 0.75, "add": 0.25})
    monkeypatch.setattr("unmasked_book.records.RECORDS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks/compiled.py", "--rounds", "3", *options])
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")  # put back afterwards
    compiled.main()
    kept = json.loads((tmp_path / f"{name}.json").read_text())
    assert asked == [False, True] * 2 * len(compiled.WIDTHS)
    assert len(caches - {""}) == 1
    assert [each["width"] for each in kept["widths"]] == list(compiled.WIDTHS)
    training, decoding = (kept["widths"][0][work] for work in ("training", "decoding"))
    assert training["later"] == {"as written": 3, "compiled": 4}  # of 1, 3, 5 and 2, 4, 6
    assert decoding["later"] == {"as written": 9, "compiled": 10}
    assert all({"as written", "compiled"} == each["first"].keys() for each in (training, decoding))
    assert decoding["operations"] == {"as written": 0, "compiled": 0}  # these steps have none
    assert decoding["inside"] == {way: {"mm": 0.75, "add": 0.25} for way in compiled.WAYS}
    assert kept["machine"]["command"] == " ".join(
        ["python benchmarks/compiled.py --rounds 3", *options]
    )


@pytest.mark.parametrize("name", ["compiled-cpu", "compiled-intel"])
def test_the_records_are_of_both_widths(name):
    kept = recorded(name)
    assert [each["width"] for each in kept["widths"]] == list(compiled.WIDTHS)
    assert all({*each} == {"width", "training", "decoding"} for each in kept["widths"])
    assert kept["machine"]["threads"] == 1


def test_operations_are_those_of_pytorch():
    x = torch.ones(3)
    assert compiled.operations(lambda: None) == 0
    assert compiled.operations(lambda: x + x) == 1


def test_the_largest_shares_come_first_and_a_graph_has_no_hash():
    shares = {"## Call CompiledFxGraph f0e1 ##": 0.6, "TorchDynamo Cache Lookup": 0.3, "add": 0.1}
    expected = {"## Call": 0.6, "TorchDynamo Cache Lookup": 0.3}
    assert compiled.largest(shares, 2) == expected

"""The benchmarks' arithmetic, and that what is recorded is what was measured."""

import json
from pathlib import Path

import pytest

from report import table
from scaling import exponent
from timing import Times, interleaved

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"


def test_a_ratio_compares_within_a_round():
    times = Times({"ours": [1.0, 2.0, 4.0], "theirs": [3.0, 6.0, 4.0]})
    assert times.ratio("ours", "theirs") == 3.0
    assert times.median("ours") == 2.0
    assert times.quartiles("theirs") == (3.5, 5.0)


def test_rounds_are_interleaved_and_begin_with_another_each_time():
    order = []
    runs = {name: lambda name=name: order.append(name) for name in "abc"}
    times = interleaved(runs, 2, "cpu")
    assert "".join(order) == "abc" + "abc" + "bca"
    assert all(len(seconds) == 2 for seconds in times.seconds.values())


def test_the_exponent_of_a_power_is_found():
    lengths = (256, 512, 1024, 2048)
    assert exponent(lengths, [3 * n**1.7 for n in lengths]) == pytest.approx(1.7)


def test_recorded_tables_are_those_of_the_recorded_times():
    results = {path: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}
    beside_peers = {path: result for path, result in results.items() if "works" in result}
    assert beside_peers
    for path, result in beside_peers.items():
        assert path.with_suffix(".md").read_text() == table(result) + "\n"
        for work in result["works"]:
            times = Times({name: t["seconds"] for name, t in work["times"].items()})
            for goal in work["goals"]:
                assert goal["measured"] == times.ratio(goal["ours"], goal["theirs"])
        assert {"date", "processor", "command", "threads"} <= result["machine"].keys()

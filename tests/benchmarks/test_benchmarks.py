"""The benchmarks' arithmetic, and that what is recorded is what was measured."""

import pytest

from timing import Times
from unmasked_book.records import recorded, recorded_names

RUNS = {name: recorded(name) for name in recorded_names()}
BESIDE_PEERS = [name for name, run in RUNS.items() if "works" in run]


def test_a_ratio_compares_within_a_round():
    times = Times({"ours": [1.0, 2.0, 4.0], "theirs": [3.0, 6.0, 4.0]})
    assert times.ratio("ours", "theirs") == 3.0
    assert times.median("ours") == 2.0
    assert times.quartiles("theirs") == (3.5, 5.0)


@pytest.mark.parametrize("name", BESIDE_PEERS)
def test_a_recorded_ratio_is_that_of_the_recorded_times(name):
    run = RUNS[name]
    for work in run["works"]:
        times = Times({name: t["seconds"] for name, t in work["times"].items()})
        for goal in work["goals"]:
            assert goal["measured"] == times.ratio(goal["ours"], goal["theirs"])

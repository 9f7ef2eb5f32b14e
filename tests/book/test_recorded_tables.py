"""The tables that stand beside the benchmarks' records are made from these records."""

import pytest

import device_report
import report
from timing import Times
from unmasked_book.records import RECORDS, recorded, recorded_names

DEVICES = [name for name in recorded_names() if name.startswith("devices-")]


def test_a_table_beside_peers_is_that_of_the_recorded_times():
    results = {name: recorded(name) for name in recorded_names()}
    beside_peers = {name: result for name, result in results.items() if "works" in result}
    assert set(beside_peers) == {"c-cpu", "c-intel", "cpu", "engine-cpu", "feed-forward-cpu"}
    for record, result in beside_peers.items():
        path = RECORDS / f"{record}.md"
        assert path.read_text(encoding="utf-8") == report.table(result) + "\n"
        assert path.with_suffix(".svg").exists()
        for work in result["works"]:
            times = Times({name: t["seconds"] for name, t in work["times"].items()})
            for goal in work["goals"]:
                assert goal["measured"] == times.ratio(goal["ours"], goal["theirs"])
        assert {"date", "processor", "command", "threads"} <= result["machine"].keys()


def test_there_is_a_recorded_run_of_a_device():
    assert "devices-cpu" in DEVICES


@pytest.mark.parametrize("name", DEVICES)
def test_a_table_of_a_device_is_that_of_the_recorded_run(name):
    path = RECORDS / f"{name}.md"
    assert path.read_text(encoding="utf-8") == device_report.table(recorded(name)) + "\n"
    assert f"--record {name}" in recorded(name)["machine"]["command"]

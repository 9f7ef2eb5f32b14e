"""The command that records an experiment of chapter 14."""

import json
import sys

import pytest

import claims as command


class Pretended:
    """Stands in for the trainings: the best rate is 0.004."""

    def __init__(self, *_):
        self.found = {"one": {"seconds": 90.0}, "another": {"seconds": 60.0}}

    def results(self, jobs):
        return [{"validation": (job["rate"] - 0.004) ** 2, "nats": job["seed"]} for job in jobs]


def test_the_command_stores_what_was_measured_and_on_what(monkeypatch, tmp_path):
    monkeypatch.setattr("unmasked_book.records.RECORDS", tmp_path)
    monkeypatch.setattr(command, "Trainings", Pretended)
    monkeypatch.setattr(sys, "argv", ["claims.py", "heads"])
    command.main()
    kept = json.loads((tmp_path / "claim-heads.json").read_text())
    assert [row["variation"] for row in kept["rows"]][:2] == ["1 head", "2 heads"]
    assert {row["rate"] for row in kept["rows"]} == {0.004}
    assert [trial["nats"] for trial in kept["rows"][0]["trials"]] == list(range(10))
    assert kept["machine"]["minutes"] == 2.5


def test_what_is_finished_is_not_trained_again(tmp_path):
    jobs = [{"rate": 0.1, "seed": 1}, {"rate": 0.1, "seed": 2}]
    lines = [
        {"job": command.key_of(job), "seconds": 1.0, "result": {"right": job["seed"]}}
        for job in jobs
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "heads.jsonl").write_text(text + '{"job": "kil')  # while this line was written
    trainings = command.Trainings("heads", tmp_path, 1)
    assert trainings.results(jobs[::-1]) == [{"right": 2}, {"right": 1}]
    assert len(trainings.found) == 2


def test_the_command_measures_time_on_a_device_and_nothing_else(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("unmasked_book.records.RECORDS", tmp_path)
    times = {"by-length": lambda device: iter([{"on": device, "threads": 2}])}
    monkeypatch.setattr(command, "TIMED", times)
    monkeypatch.setattr(sys, "argv", ["claims.py", "by-length"])
    command.main()
    kept = json.loads((tmp_path / "claim-by-length.json").read_text())
    assert kept["rows"] == [{"on": "cpu", "threads": 2}]
    assert kept["machine"]["threads"] == 2
    monkeypatch.setattr(sys, "argv", ["claims.py", "heads", "--device", "cuda"])
    with pytest.raises(SystemExit):
        command.main()
    assert "--device is for by-length" in capsys.readouterr().err

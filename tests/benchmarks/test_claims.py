"""The command that records an experiment of chapter 12."""

import json
import sys

import pytest
import torch

import claims as command


def test_the_command_stores_what_was_measured_and_on_what(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "RECORDS", tmp_path)
    monkeypatch.setattr(command, "EXPERIMENTS", {"heads": lambda: iter([{"a": 1}, {"a": 2}])})
    monkeypatch.setattr(sys, "argv", ["claims.py", "heads"])
    command.main()
    kept = json.loads((tmp_path / "claim-heads.json").read_text())
    assert kept["rows"] == [{"a": 1}, {"a": 2}]
    assert kept["machine"]["command"] == "python benchmarks/claims.py heads"
    assert kept["machine"]["torch"] == torch.__version__
    assert "2 rows are in" in capsys.readouterr().out


def test_the_command_measures_time_on_a_device_and_nothing_else(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "RECORDS", tmp_path)
    monkeypatch.setattr(
        command,
        "EXPERIMENTS",
        {"by-length": lambda device: iter([{"on": device, "threads": 2}]), "heads": None},
    )
    monkeypatch.setattr(sys, "argv", ["claims.py", "by-length"])
    command.main()
    kept = json.loads((tmp_path / "claim-by-length.json").read_text())
    assert kept["rows"] == [{"on": "cpu", "threads": 2}]
    assert kept["machine"]["threads"] == 2
    monkeypatch.setattr(sys, "argv", ["claims.py", "heads", "--device", "cuda"])
    with pytest.raises(SystemExit):
        command.main()
    assert "--device is for by-length" in capsys.readouterr().err

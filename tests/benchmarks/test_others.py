"""What benchmarks/others.py makes of files and models, and that its record is complete."""

import json
import subprocess

import pytest
import torch

import others as command
from unmasked import Transformer, TransformerConfig
from unmasked.checking.report import CLAIMS
from unmasked.masks import padding_mask
from unmasked_book.records import recorded

MODULE = '''
"""A module that would not run here."""
import torchtext
from nowhere import Base

print(torchtext)


def doubled(x: Unknown) -> Unknown:
    return 2 * x


class Double(nn.Module):
    def forward(self, x):
        return doubled(x) + d2l.zeros(1)


class Other(Base):
    pass
'''


def test_named_definitions_are_run_and_what_is_missing_is_named(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    parts = command.run([path], "Double doubled")
    assert parts.Double()(torch.ones(1)).item() == 2.0
    with pytest.raises(SystemExit, match=r"module\.py: Third"):
        command.run([path], "doubled Third")


def test_definitions_come_out_of_a_notebook(tmp_path):
    code = [["%matplotlib inline\n", "import spacy"], ["def one():\n", "    return 1"], ["!ls"]]
    cells = [{"cell_type": "code", "source": source} for source in code]
    path = tmp_path / "6 - a notebook.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    assert command.run([path], "one").one() == 1


def test_a_clone_must_be_at_its_commit(tmp_path):
    clone = tmp_path / "clone"
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "--quiet", str(clone)], check=True)
    (clone / "a file.py").write_text(MODULE)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "a"], check=True)
    commit = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
    parts, at = command.opened(tmp_path, "somebody/clone", commit, ["a file.py"], "doubled")
    assert parts.doubled(2) == 4
    assert at == f"https://github.com/somebody/clone/blob/{commit}/a%20file.py"
    with pytest.raises(SystemExit, match="checkout 0123"):
        command.opened(tmp_path, "somebody/clone", "0123", ["a file.py"], "doubled")


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
def test_a_faulty_step_is_compared_with_one_call(monkeypatch):
    monkeypatch.setattr(command, "with_enlarged_weights", lambda _: {})

    def step(model, source, target):
        return torch.cat([model(source, word) for word in target.split(1, dim=1)], dim=1)

    shown = made_of(plainly, step=step)["cached"]["input"]
    assert shown["target"] == [6, 7]
    assert shown["output"] == 1
    assert "beside" not in shown


@pytest.mark.usefixtures("a_single_seed")
def test_the_command_stores_the_smallest_input_of_a_fault_and_the_versions(monkeypatch, tmp_path):
    page = command.Reading("it is said to be so", "https://…")
    other = other_of(without_causal_mask, readings={"padding": page})
    monkeypatch.setattr("unmasked_book.records.RECORDS", tmp_path)
    monkeypatch.setattr(command, "packaged", lambda: iter([other]))
    monkeypatch.setattr(command, "downloaded", lambda folder: iter(()))
    monkeypatch.setattr(command, "cloned", lambda folder: iter(()))
    monkeypatch.setattr(command, "version", lambda name: "2.0")
    monkeypatch.setattr("sys.argv", ["others.py", "--folder", "../others"])
    command.main()
    kept = json.loads((tmp_path / "others.json").read_text("utf-8"))
    assert kept["machine"]["transformers"] == "2.0"
    [row] = kept["rows"]
    found = {finding["property"]: finding for finding in row["findings"]}
    assert (found["causality"]["verdict"], found["own words"]["verdict"]) == ("fault", "ok")
    shown = found["causality"]["input"]
    assert (shown["source"], shown["target"], shown["output"]) == ([5], [6, 7], 0)
    assert shown["beside"] == {"source": [5], "target": [6, 8]}
    assert found["padding"]["explained"] == {"reason": "it is said to be so", "link": "https://…"}


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


def test_small_weights_are_enlarged_and_large_ones_left():
    model, other = torch.nn.Linear(50, 50), torch.nn.Embedding(50, 8)
    torch.nn.init.normal_(model.weight, std=0.02)
    table = other.weight.clone()
    command.enlarged(torch.nn.ModuleList([model, other]))
    assert model.weight.std().item() == pytest.approx(command.SPREAD)
    assert torch.equal(other.weight, table)

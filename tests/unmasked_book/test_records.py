"""Recorded runs: where, when and how; and that what is shipped is what was recorded."""

import datetime
import math
from pathlib import Path

import pytest

import translation
import unmasked
from ladder import RUNGS, SEEDS, START, Ladder, Run
from model_card import card
from unmasked.cli import train
from unmasked.storage.files import digest
from unmasked.storage.model import weights_file
from unmasked.translator import MODELS, shipped_models
from unmasked_book import recorded
from unmasked_book.records import record, recorded_names

NAMES = ("de-en", "en-de")


def test_every_run_says_where_when_and_how():
    names = recorded_names()
    assert {"cpu", "feed-forward-cpu"} <= set(names)
    for name in names:
        machine = recorded(name)["machine"]
        datetime.date.fromisoformat(machine["date"])
        assert machine["command"].startswith("python ")
        assert " /" not in machine["command"]  # a command of the checkout, on any machine
        assert machine["processor"]


def test_what_is_recorded_is_found_again_and_the_known_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr("unmasked_book.records.RECORDS", tmp_path)
    result = {"machine": {"date": "2026-11-23"}, "√": [1.5, None]}
    assert record("some", result) == tmp_path / "some.json"
    assert recorded("some") == result
    assert "√" in (tmp_path / "some.json").read_text("utf-8")
    with pytest.raises(ValueError, match=r"^name: expected .*some.*, got 'gpu'"):
        recorded("gpu")


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_are_small_halves_and_those_that_were_scored(name):
    assert shipped_models() == list(NAMES)
    weights, result = weights_file(MODELS / name), recorded(f"multi30k-{name}")
    assert weights.stat().st_size == result["bytes"] <= 8e6
    assert digest(weights) == result["sha256"]
    model = unmasked.load(name)
    assert model.model.count_parameters() == result["parameters"] < 3e6
    assert model.about["scores"] == result["float16"]
    assert model.about["recipe"] == result["training"]["recipe"]
    assert result["training"]["recipe"] == train.read_toml(train.PRESETS / f"multi30k-{name}.toml")
    assert (MODELS / name / "README.md").read_text(encoding="utf-8") == card(name, result)
    scores = result["float16"]["test_2016_flickr"]
    greedy = [row["greedy"] for row in result["by_length"]]
    assert sum(row["sentences"] for row in result["by_length"]) == 1000
    assert min(greedy) < scores["greedy"] < max(greedy)
    assert name == "en-de" or scores["beam 5"] > 36.52  # Wu et al. 2021, Transformer-tiny


@pytest.mark.parametrize(
    ("name", "source", "wanted"),
    [
        ("de-en", "Zwei Kinder spielen im Garten.", "two children"),
        ("en-de", "Two children are playing in the garden.", "zwei kinder spielen"),
    ],
)
def test_it_loads_offline_by_name_or_folder_and_translates(tmp_path, name, source, wanted):
    [written] = unmasked.load(name).translate([source])
    assert written.startswith(wanted)
    assert unmasked.load(MODELS / name).languages == tuple(name.split("-"))
    with pytest.raises(ValueError, match=r"^model: .* de-en, en-de, got '.*none'"):
        unmasked.load(tmp_path / "none")


def test_groups_of_lengths_know_their_share_of_the_training_and_how_long_they_came_out(monkeypatch):
    pairs = [("a b c", "x"), ("a b c d e f g h i", "x"), ("a b c d e f g h", "x"), ("a", "x")]
    monkeypatch.setattr(translation, "pairs_of", lambda _translator, split: {"train": pairs}[split])
    monkeypatch.setattr(translation, "BUCKETS", (0, 8, 100))
    long, short = "one two three four five six seven eight", "one two three four"
    written = {"greedy": [short, short], "beam 5": [short, long]}
    scored = {"source": [short, long], "target": [short, long], "written": written}
    first, second = translation.by_length(scored, None)
    assert (first["from"], first["to"], first["sentences"]) == (0, 7, 1)
    assert [row["of training"] for row in (first, second)] == [0.5, 0.5]
    assert (second["greedy, length"], second["beam 5, length"]) == (0.5, 1.0)
    assert second["beam 5"] == 100 > second["greedy"]


class Imagined(Ladder):
    """A ladder whose runs score what their distance from the best rate says; nothing is trained."""

    def __init__(self, best):
        super().__init__(Path("nowhere"), 1)
        self.best, self.trainings = best, []

    def trained(self, run):
        self.trainings.append(run)
        bleu = 30 - abs(math.log2(run.rate / self.best)) + run.seed / 100
        return {"bleu": bleu, "chrf": 50.0, "parameters": 1, "seconds": 1, "written": ["a dog"]}

    def compare(self, below, chosen, run):
        assert Run(below, chosen[RUNGS[below].name], run.seed) in self.found
        return 0.5


@pytest.mark.parametrize("best", [0.001, 0.0001, 0.02])
def test_the_ladder_looks_for_rates_until_the_best_is_inside_and_runs_nothing_twice(best):
    ladder = Imagined(best)
    rows = {row["name"]: row for row in ladder.climb()}
    assert len(set(ladder.trainings)) == len(ladder.trainings)
    assert list(rows) == [rung.name for rung in RUNGS]
    for rung in RUNGS:
        row = rows[rung.name]
        tried = sorted(map(float, row["rates"]))
        if rung.rates:
            assert len(tried) >= 4
            assert tried[0] < row["rate"] < tried[-1]
            assert abs(math.log2(row["rate"] / best)) <= 0.5
        else:
            assert tried == [row["rate"]] == [rows[rung.below]["rate"]]
        assert len(row["bleu"]) == len(SEEDS)
        assert len(row["p"]) == (0 if rung.below is None else len(SEEDS))


def test_a_rung_keeps_the_changes_of_those_that_it_stands_on():
    ladder, numbers = Imagined(0.001), {rung.name: number for number, rung in enumerate(RUNGS)}
    for number, rung in enumerate(RUNGS):
        below = numbers.get(rung.below)
        assert below is None or below < number
        before = START if below is None else ladder.settings(below)
        assert ladder.settings(number) == {**before, **rung.change}

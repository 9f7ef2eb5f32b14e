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

# --- All runs ---------------------------------------------------------------------------------


def test_every_run_says_where_when_and_how():
    assert {"cpu", "engine-cpu", "feed-forward-cpu"} <= set(recorded_names())
    for name in recorded_names():
        machine = recorded(name)["machine"]
        datetime.date.fromisoformat(machine["date"])
        assert machine["command"].startswith("python ")
        assert " /" not in machine["command"]  # a command of the checkout, on any machine
        assert machine["processor"]


def test_an_unknown_run_is_refused_and_the_known_are_named():
    with pytest.raises(ValueError, match=r"^name: expected .*engine-cpu.*, got 'gpu'"):
        recorded("gpu")


def test_what_is_recorded_is_found_again(monkeypatch, tmp_path):
    monkeypatch.setattr("unmasked_book.records.RECORDS", tmp_path)
    result = {"machine": {"date": "2026-11-23"}, "√": [1.5, None]}
    assert record("some", result) == tmp_path / "some.json"
    assert recorded("some") == result
    assert "√" in (tmp_path / "some.json").read_text("utf-8")


# --- Translations -----------------------------------------------------------------------------

NAMES = ("de-en", "en-de")


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def test_the_package_has_both_directions_and_no_more():
    assert shipped_models() == list(NAMES)


def test_the_card_is_made_of_the_record(name):
    kept = (MODELS / name / "README.md").read_text(encoding="utf-8")
    assert kept == card(name, recorded(f"multi30k-{name}"))


def test_the_weights_are_small_halves_and_those_that_were_scored(name):
    weights, result = weights_file(MODELS / name), recorded(f"multi30k-{name}")
    assert weights.stat().st_size == result["bytes"] <= 8e6
    assert digest(weights) == result["sha256"]
    model = unmasked.load(name)
    assert model.model.count_parameters() == result["parameters"] < 3e6
    assert model.about["scores"] == result["float16"]
    assert model.about["recipe"] == result["training"]["recipe"]


def test_the_recorded_recipe_is_the_presets(name):
    preset = train.read_toml(train.PRESETS / f"multi30k-{name}.toml")
    assert recorded(f"multi30k-{name}")["training"]["recipe"] == preset


def test_the_scores_that_were_to_be_beaten():
    """Wu et al. 2021 (Transformer-tiny) and pytorch-seq2seq's Transformer; see chapter 10."""
    assert recorded("multi30k-de-en")["float16"]["test_2016_flickr"]["beam 5"] > 36.52


def test_the_lengths_are_those_of_the_whole_test_set(name):
    rows = recorded(f"multi30k-{name}")["by_length"]
    assert sum(row["sentences"] for row in rows) == 1000
    scores = recorded(f"multi30k-{name}")["float16"]["test_2016_flickr"]
    assert min(r["greedy"] for r in rows) < scores["greedy"] < max(r["greedy"] for r in rows)


def test_it_loads_offline_and_translates(name):
    source, wanted = {
        "de-en": ("Zwei Kinder spielen im Garten.", "two children"),
        "en-de": ("Two children are playing in the garden.", "zwei kinder spielen"),
    }[name]
    [written] = unmasked.load(name).translate([source])
    assert written.startswith(wanted)


def test_a_folder_is_loaded_too_and_what_is_neither_is_refused(tmp_path, name):
    assert unmasked.load(MODELS / name).languages == tuple(name.split("-"))
    with pytest.raises(ValueError, match=r"^model: expected one of de-en, en-de, got '.*none'; or"):
        unmasked.load(tmp_path / "none")


# --- Scores by length -------------------------------------------------------------------------


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


# --- The ladder -------------------------------------------------------------------------------


class Imagined(Ladder):
    """A ladder whose runs score what their distance from the best rate says; nothing is trained."""

    def __init__(self, best):
        super().__init__(Path("nowhere"), 1)
        self.best = best

    def trained(self, run):
        distance = abs(math.log2(run.rate / self.best))
        bleu = 30 - distance + run.seed / 100
        return {"bleu": bleu, "chrf": 50.0, "parameters": 1, "seconds": 1, "written": ["a dog"]}

    def compare(self, below, chosen, run):
        assert Run(below, chosen[RUNGS[below].name], run.seed) in self.found
        return 0.5


@pytest.mark.parametrize("best", [0.001, 0.0001, 0.02])
def test_the_ladder_looks_for_rates_until_the_best_is_inside(best):
    rows = Imagined(best).climb()
    assert [row["name"] for row in rows] == [rung.name for rung in RUNGS]
    for rung, row in zip(RUNGS, rows, strict=True):
        assert len(row["bleu"]) == len(SEEDS)
        tried = sorted(map(float, row["rates"]))
        if rung.rates:
            assert len(tried) >= 4
            assert tried[0] < row["rate"] < tried[-1]
            assert abs(math.log2(row["rate"] / best)) <= 0.5
        else:
            below = next(other for other in rows if other["name"] == rung.below)
            assert tried == [row["rate"]] == [below["rate"]]
        assert len(row["p"]) == (0 if rung.below is None else len(SEEDS))


def test_a_rung_keeps_the_changes_of_those_that_it_stands_on():
    ladder = Imagined(0.001)
    for number, rung in enumerate(RUNGS):
        below = next((i for i, other in enumerate(RUNGS) if other.name == rung.below), None)
        assert below is None or below < number
        before = START if below is None else ladder.settings(below)
        assert ladder.settings(number) == {**before, **rung.change}


def test_a_run_that_is_known_is_not_run_again(monkeypatch):
    ladder = Imagined(0.001)
    ladder.run([Run(0, 0.001, 0)])
    monkeypatch.setattr(ladder, "trained", None)
    ladder.run([Run(0, 0.001, 0)])
    assert list(ladder.found) == [Run(0, 0.001, 0)]

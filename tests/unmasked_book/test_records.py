"""Recorded runs: where, when and how; and that what is shipped is what was recorded."""

import datetime

import pytest

import unmasked
from ladder import BEGIN, RUNGS
from model_card import card
from unmasked.cli import train
from unmasked.storage import digest
from unmasked.translator import MODELS, shipped_models, weights_file
from unmasked_book import recorded
from unmasked_book.records import recorded_names

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


def test_each_rung_of_the_ladder_keeps_the_changes_of_those_below_it():
    settings = dict(BEGIN)
    rungs = recorded("multi30k-ladder")["rungs"]
    for (name, change), rung in zip(RUNGS.items(), rungs, strict=True):
        settings |= change
        assert rung["name"] == name
        assert rung["set"] == settings

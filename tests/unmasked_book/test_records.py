"""Tests that records say where, when and how, and that the shipped models are the recorded."""

import datetime
import hashlib

import pytest

import unmasked
from unmasked.cli import train
from unmasked.translator import MODELS, shipped_models
from unmasked_book import recorded
from unmasked_book.records import recorded_names


def test_every_run_says_where_when_and_how():
    for name in recorded_names():
        machine = recorded(name)["machine"]
        datetime.date.fromisoformat(machine["date"])
        assert machine["command"].startswith("python ")
        assert " /" not in machine["command"]  # a command of the checkout, on any machine
        assert machine["processor"]


@pytest.mark.parametrize("name", ["de-en", "en-de"])
def test_the_weights_are_small_halves_and_those_that_were_scored(name):
    assert shipped_models() == ["de-en", "en-de"]
    data, result = (MODELS / f"{name}.safetensors").read_bytes(), recorded(f"multi30k-{name}")
    weights = data[8 + int.from_bytes(data[:8], "little") :]  # without the head
    assert len(data) <= 8e6
    assert hashlib.sha256(weights).hexdigest() == result["sha256"]
    model, recipe = unmasked.load(name), result["training"]["recipe"]
    assert model.model.count_parameters() == result["parameters"] < 3e6
    assert model.about["scores"] == result["float16"]
    assert model.about["recipe"] == recipe
    assert train.read_toml(train.PRESETS / f"multi30k-{name}.toml") == recipe
    beam = result["float16"]["test_2016_flickr"]["beam 5"]
    assert name == "en-de" or beam > 36.52  # Wu et al. 2021, Transformer-tiny
    card = (MODELS / f"{name}.md").read_text(encoding="utf-8")
    for split, found in result["float16"].items():
        assert f"| {split} | {found['greedy']:.2f} | {found['beam 5']:.2f} |" in card

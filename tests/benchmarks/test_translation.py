"""What the commands of chapter 10 make of their trainings: cards, groups of lengths, a ladder."""

import math
from pathlib import Path

import pytest

import translation
from ladder import RUNGS, SEEDS, Ladder, Run
from model_card import card
from unmasked.translator import MODELS, shipped_models
from unmasked_book.records import recorded


@pytest.mark.parametrize("name", shipped_models())
def test_the_card_is_made_of_the_record(name):
    kept = (MODELS / name / "README.md").read_text(encoding="utf-8")
    assert kept == card(name, recorded(f"multi30k-{name}"))


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


@pytest.mark.parametrize("best", [0.001, 0.02])
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

"""What the commands of chapter 10 make of their trainings: cards, groups of lengths, a ladder."""

import math
from pathlib import Path

import pytest

from ladder import RUNGS, SEEDS, Ladder, Run
from model_card import card
from unmasked.translator import MODELS, shipped_models
from unmasked_book.records import recorded


@pytest.mark.parametrize("name", shipped_models())
def test_the_card_is_made_of_the_record(name):
    kept = (MODELS / name / "README.md").read_text(encoding="utf-8")
    assert kept == card(name, recorded(f"multi30k-{name}"))


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

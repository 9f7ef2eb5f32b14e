"""Small spellers with one bug each, and what the steps of chapter 16 make of them."""

import pytest

from unmasked_book.experiments import steps
from unmasked_book.experiments.steps import CASES, Case

MEASURED = {
    "faults", "start", "by heart", "new words", "own source", "another source", "given", "unaided",
    "beside a plain loop", "unaided, wider", "unaided, one by one",
}  # fmt: skip


@pytest.mark.parametrize("name", list(CASES)[::3])
def test_a_case_can_be_measured(name, monkeypatch):
    monkeypatch.setattr(steps, "BY_HEART", 3)
    monkeypatch.setattr(steps, "WORDS", 5)
    monkeypatch.setattr(CASES[name], "updates", 3)
    found = steps.trial(case=name, seed=0)
    assert found.keys() == MEASURED


def test_a_sound_case_is_what_a_plain_loop_does():
    assert steps.apart(Case(), 0) == 0
    assert steps.apart(CASES["padding in the divisor"](), 0) > 1e-3
    assert steps.apart(CASES["layers in a list"](), 0) is None

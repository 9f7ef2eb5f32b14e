"""Small spellers with one bug each, and what the steps of chapter 15 make of them."""

import pytest
import torch

from unmasked_book.experiments import steps
from unmasked_book.experiments.steps import CASES, STEPS, Case

WRITTEN = ("given", "unaided", "unaided, wider", "unaided, one by one")
HEALTHY = {
    "faults": [],
    "start": 3.9,
    "by heart": 0.01,
    "new words": 0.1,
    "own source": 0.1,
    "another source": 6.0,
    "beside a plain loop": 1e-7,
    **dict.fromkeys(WRITTEN, 0.9),
}


def failed(**changes):
    return [step for step, fails in STEPS.items() if fails(HEALTHY | changes)]


@pytest.mark.parametrize(
    ("step", "changes"),
    [
        ("2. check", {"faults": ["padding"]}),
        ("3. first loss", {"start": 4.5}),
        ("3. first loss", {"start": float("nan")}),
        ("4. by heart", {"by heart": 0.2}),
        ("5. baseline", {"new words": 1.6}),
        ("6. swap", {"another source": 0.5}),
        ("7. generate", {"unaided": 0.8}),
        ("7. generate", dict.fromkeys(WRITTEN, 0.0)),
        ("7. other widths", {"unaided, wider": 0.8}),
        ("7. other widths", {"unaided, one by one": 1.0}),
        ("a plain loop", {"beside a plain loop": 1e-3}),
    ],
)
def test_each_step_has_a_limit(step, changes):
    assert failed() == []
    assert failed(**changes) == [step]


@pytest.mark.parametrize("name", CASES)
def test_every_case_can_be_measured(name, monkeypatch):
    monkeypatch.setattr(steps, "BY_HEART", 3)
    monkeypatch.setattr(steps, "WORDS", 5)
    monkeypatch.setattr(CASES[name], "updates", 3)
    found = steps.trial(case=name, seed=0)
    assert found.keys() == HEALTHY.keys()


def test_a_sound_case_is_what_a_plain_loop_does():
    assert steps.apart(Case(), 0) == 0
    assert steps.apart(CASES["padding in the divisor"](), 0) > 1e-3
    assert steps.apart(CASES["layers in a list"](), 0) is None


def test_a_word_is_right_up_to_its_end():
    labels = torch.tensor([[5, 2, 0], [6, 7, 2]])
    assert steps.right(torch.tensor([[5, 2, 9], [6, 7, 3]]), labels) == 0.5

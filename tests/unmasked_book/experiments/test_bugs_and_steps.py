"""Small spellers with one bug each, and what the steps of chapter 15 make of them."""

import pytest
import torch

from unmasked_book.experiments import steps
from unmasked_book.experiments.steps import CASES, STEPS, Case
from unmasked_book.records import recorded

HEALTHY = {
    "faults": [],
    "start": 3.9,
    "by heart": 0.01,
    "new words": 0.1,
    "own source": 0.1,
    "another source": 6.0,
    "given": 0.9,
    "unaided": 0.9,
    "unaided, wider": 0.9,
    "unaided, one by one": 0.9,
    "beside a plain loop": 1e-7,
}
NOTHING = dict.fromkeys(("given", "unaided", "unaided, wider", "unaided, one by one"), 0.0)


def failed(**changes):
    return [step for step, fails in STEPS.items() if fails(HEALTHY | changes)]


@pytest.mark.parametrize(
    ("step", "changes"),
    [
        (None, {}),
        ("2. check", {"faults": ["padding"]}),
        ("3. first loss", {"start": 4.5}),
        ("3. first loss", {"start": 3.2}),
        ("3. first loss", {"start": float("nan")}),
        ("4. by heart", {"by heart": 0.2}),
        ("5. baseline", {"new words": 1.6}),
        ("6. swap", {"another source": 0.5}),
        ("7. generate", {"unaided": 0.8}),
        ("7. generate", NOTHING),
        ("7. other widths", {"unaided, wider": 0.8}),
        ("7. other widths", {"unaided, one by one": 1.0}),
        ("a plain loop", {"beside a plain loop": 1e-3}),
        ("a plain loop", {"beside a plain loop": None}),
    ],
)
def test_each_step_has_a_limit(step, changes):
    assert failed(**changes) == ([step] if step else [])


@pytest.mark.parametrize("name", CASES)
def test_every_case_can_be_measured(name, monkeypatch):
    monkeypatch.setattr(steps, "BY_HEART", 3)
    monkeypatch.setattr(steps, "WORDS", 5)
    monkeypatch.setattr(CASES[name], "updates", 3)
    found = steps.trial(case=name, seed=0)
    assert found.keys() == HEALTHY.keys()
    early = {"2. check", "3. first loss", "a plain loop"}  # as in the record, without training
    [row] = [row for row in recorded("steps")["rows"] if (row["case"], row["seed"]) == (name, 0)]
    for step in early:
        assert STEPS[step](found) == STEPS[step](row)


def test_a_sound_case_is_what_a_plain_loop_does():
    assert steps.apart(Case(), 0) == 0
    assert steps.apart(CASES["padding in the divisor"](), 0) > 1e-3
    assert steps.apart(CASES["layers in a list"](), 0) is None


def test_a_word_is_right_up_to_its_end():
    labels = torch.tensor([[5, 2, 0], [6, 7, 2]])
    assert steps.right(torch.tensor([[5, 2, 9], [6, 7, 3]]), labels) == 0.5


def test_the_record_has_every_case_with_three_seeds():
    found = [(row["case"], row["seed"]) for row in recorded("steps")["rows"]]
    assert found == [(case, seed) for case in CASES for seed in range(3)]

"""The rules of chapter 16's steps, on the recorded spellers."""

from unmasked_book import recorded
from unmasked_book.experiments.steps import STEPS


def found(case):
    rows = [row for row in recorded("steps")["rows"] if row["case"] == case]
    assert len(rows) == 3
    return {step for step, fails in STEPS.items() if all(map(fails, rows))}


def test_a_sound_speller_passes_and_each_rule_finds_something():
    assert found("no bug") == set()
    assert found("padding in the divisor") == {"3. first loss", "a plain loop"}
    assert found("padding seen") == {"2. check", "7. other widths", "a plain loop"}
    assert found("labels not shifted") == {"6. swap", "7. generate", "a plain loop"}
    assert found("no bug, a tenth of the training") >= {"5. baseline"}
    assert "4. by heart" in found("a softmax before the loss")


def test_few_right_words_are_not_enough():
    assert "7. generate" in found("no positions")

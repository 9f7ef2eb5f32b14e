"""Heads removed: what is recorded fits together."""

import heads
from unmasked_book.records import recorded


def test_a_recorded_sign_test_is_that_of_the_recorded_counts():
    for model in recorded("repeats")["models"].values():
        for row in (row for way in ("zero", "mean") for layer in model[way] for row in layer):
            more, less = row["more"], row["less"]
            assert row["repeats"] == model["whole"]["repeats"] + more - less
            assert row["p"] == heads.sign_test(more, less)
    assert heads.sign_test(3, 0) == heads.sign_test(0, 3) == 0.25
    assert heads.sign_test(2, 2) == heads.sign_test(0, 0) == 1.0


def test_what_is_beyond_the_reference_is_repeated_and_more_often_than_there():
    assert heads.beyond("einen hund, einen hund", "ein hund und einen anderen")
    assert not heads.beyond("einen hund, einen hund", "einen hund, einen anderen")

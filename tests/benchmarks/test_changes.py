"""What is recorded of the search without each of the changes that made it faster."""

from unmasked_book.records import recorded

CHANGES = [
    "matrices laid out", "padding left out", "two products for one query",
    "largest logit by NumPy", "cross-attention folded",
]  # fmt: skip


def test_every_change_is_recorded_alone_and_all_together():
    kept = recorded("changes")
    asked = [(each["width"], each["rows"]) for each in kept["searches"]]
    assert asked == [(256, 1), (256, 32), (512, 1), (512, 32)]
    assert kept["machine"]["threads"] == 1
    for each in kept["searches"]:
        assert list(each["without"]) == ["all", *CHANGES, "none", "module by module"]
        assert each["without"]["all"] == [1, 1, 1]
        for low, middle, high in each["without"].values():
            assert 0 < low <= middle <= high

"""What benchmarks/prophetnet.py asks of a model, and that its record has both sides of the bug."""

from unmasked_book.records import recorded


def test_the_record_has_the_last_version_that_was_right_and_the_first_that_is_not():
    rows = {row["transformers"]: row["moves"] for row in recorded("prophetnet")["rows"]}
    assert max(rows["4.26.1"].values()) < 1e-6
    assert min(*rows["4.27.0"].values(), *rows["5.23.0"].values()) > 1e-3

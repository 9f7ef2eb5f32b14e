"""Numbers in the prose that come from recorded runs are the recorded ones."""

from collections.abc import Iterator
from statistics import fmean

import pytest

from helpers.pages import prose
from unmasked_book import recorded
from unmasked_book.experiments import by_length, copying
from unmasked_book.experiments.statistics import row, trials

# Each function gives what its page has to say, with the numbers of the records in it.


def feed_forward() -> Iterator[str]:
    run = recorded("feed-forward-cpu")
    for work, words in zip(run["works"], ("forward pass took", "training step"), strict=True):
        linear, convolution = (
            f"{1000 * work['times'][f'unmasked, {kind}']['median']:.0f}"
            for kind in ("linear", "convolution")
        )
        unit = " ms" if "took" in words else ""
        yield f"a {words} {convolution}{unit} instead of {linear}"
    yield run["machine"]["date"]


def scores() -> Iterator[str]:
    runs = {name: recorded(f"multi30k-{name}") for name in ("en-de", "de-en")}
    found = {name: run["float16"]["test_2016_flickr"] for name, run in runs.items()}
    ours = found["en-de"]["beam 5"]
    yield f"Our {ours:.2f} is {ours - 41.02:.2f} above it."
    yield f"ours reaches {found['de-en']['greedy']:.2f}"
    yield f"bootstrap's scores lie within {runs['en-de']['interval']:.1f} points of ours"
    for name, where in (("de-en", "from German to English"), ("en-de", "from English to German")):
        beam = runs[name]["beam"]
        points = " points" if name == "de-en" else ""
        yield f"by {beam['difference']:.1f}{points} {where} ($p$ = {beam['p']:.3f})"


def speed_and_copying() -> Iterator[str]:
    rows, shares = recorded("claim-by-length")["rows"], []
    for length in (16, 2048):
        ours, theirs = (
            row(rows, threads=2, length=length, model=model)["seconds"]
            for model in ([*by_length.LSTMS][1], "Transformer")
        )
        shares.append(ours / theirs)
    yield "{:.2f} of the Transformer's time at 16 words and {:.2f} at 2,048".format(*shares)
    rows = recorded("claim-copying")["rows"]
    plain, attending, _, transformer = (
        fmean(trials(rows, "right", letters_a_row=64, model=model)) for model in copying.MODELS
    )
    yield f"Attention gains the one-layer LSTM {100 * (attending - plain):.0f} points"
    yield f"the Transformer in its place gains {100 * (transformer - attending):.1f}"


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("04_feed_forward", feed_forward),
        ("10_translating", scores),
        ("14_claims", speed_and_copying),
    ],
)
def test_numbers_in_the_text_are_those_of_the_records(page, said):
    text = prose(page)
    assert [words for words in said() if words not in text] == []

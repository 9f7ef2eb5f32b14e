"""Numbers in the prose that come from recorded runs are the recorded ones."""

from collections.abc import Iterator

import pytest

from helpers.pages import prose
from unmasked_book import recorded
from unmasked_book.experiments import by_length, copying, root_of_width, small_data, steps
from unmasked_book.experiments.statistics import difference, interval, options, row, trials
from unmasked_book.experiments.variations import LEARNED, SINUSOIDAL
from unmasked_book.live import tables

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
    yield f"So our {ours:.2f} may owe something to the third try"
    yield f"ours reaches {found['de-en']['greedy']:.2f}"
    yield f"bootstrap's scores lie within {runs['en-de']['interval']:.1f} points of ours"
    for name, where in (("de-en", "from German to English"), ("en-de", "from English to German")):
        beam = runs[name]["beam"]
        points = " points" if name == "de-en" else ""
        yield f"by {beam['difference']:.1f}{points} {where} ($p$ = {beam['p']:.3f})"
    last = runs["de-en"]["by_length"][-1]
    spread = max(last[f"{how}, interval"] for how in ("greedy", "beam 5"))
    yield f"the {last['sentences']} test sentences of {last['from']} German words"
    yield f"reach only {last['beam 5']:.1f} with the beam"
    yield f"lie within {spread:.1f} points of it"
    yield f"{last['of training']:.0%} of the pairs"


def trainings() -> Iterator[str]:
    history = recorded("multi30k-de-en")["training"]["history"]
    losses = {row["step"]: row["validation"] for row in history if "validation" in row}
    yield f"from {losses[4500]:.2f} to {losses[5500]:.2f} within a thousand steps"
    both, one = (
        recorded(f"multi30k-{name}")["training"]["recipe"]["training"]
        for name in ("en-de", "en-de-one-way")
    )
    backwards = round(both["both_ways"] * both["steps"]) // 2
    yield f"{backwards:,} of the {both['steps']:,} steps"
    yield f"own direction ({both['steps'] - backwards:,} instead of {one['steps']:,})"
    runs = recorded("multi30k-dropout")["runs"]
    scored = {(run["dropout"], run["seed"]): run["val"] for run in runs}
    for seed in (0, 1):
        yield f"ends {scored[0.1, seed] - scored[0.3, seed]:.2f} lower with either seed"
    rungs = {rung["name"]: rung for rung in recorded("multi30k-ladder")["rungs"]}
    for name, words in (
        ("4,000 subwords", "falls by {:.1f} to {:.1f} points"),
        ("both directions", "cost {:.1f} to {:.1f} points"),
    ):
        below = rungs[rungs[name]["below"]]["bleu"]
        lost = [other - ours for ours, other in zip(rungs[name]["bleu"], below, strict=True)]
        yield words.format(min(lost), max(lost))


def claim(name):
    return recorded(f"claim-{name}")["rows"]


def gap(rows, measured, where, a, b):
    """The difference of two means."""
    return difference(trials(rows, measured, **where, **a), trials(rows, measured, **where, **b))


def speed_and_copying() -> Iterator[str]:
    rows, shares = claim("by-length"), {}
    for lstm in by_length.LSTMS:
        shares[lstm] = [
            row(rows, threads=2, length=length, model=lstm)["seconds"]
            / row(rows, threads=2, length=length, model="Transformer")["seconds"]
            for length in options(rows, "length")
        ]
    parameters, products = shares.values()
    yield f"{products[0]:.2f} of the Transformer's time at 16 words and {products[-1]:.2f} at 2,048"
    yield f"{parameters[0]:.2f} at 16 words, about half from 32 to 1,024, and {parameters[-1]:.2f}"
    right = {
        model: interval(trials(claim("copying"), "right", letters_a_row=64, model=model)).mean
        for model in copying.MODELS
    }
    plain, attending, _, transformer = right.values()
    yield f"Attention gains the one-layer LSTM {100 * (attending - plain):.0f} points"
    yield f"the Transformer in its place gains {100 * (transformer - attending):.1f}"
    yield f"leaves 1/{round((1 - plain) / (1 - attending), -2):.0f} of its errors"
    yield f"leaves 1/{round((1 - attending) / (1 - transformer), -1):.0f} of those"
    alone = {"model": copying.MODELS[0]}
    lost = gap(claim("distance"), "right", alone, {"blanks": 0}, {"blanks": copying.BLANKS}).mean
    yield f"{copying.BLANKS} on either side already cost it {100 * lost:.0f} points"
    yield f"{8 + copying.BLANKS} or {8 + copying.FAR} positions after it was read"


def roots_data_and_positions() -> Iterator[str]:
    rows = claim("root-of-width")
    divided, undivided, smaller = ({"kind": kind} for kind in root_of_width.KINDS)
    for kind, words in ((undivided, "loses"), (smaller, "it loses only")):
        lost = [
            100 * gap(rows, "right", {"width": width}, divided, kind).mean
            for width in options(rows, "width")
        ]
        yield "{} {:.1f}, {:.1f} and {:.1f} points".format(words, *lost)
    few = {"sentences": small_data.SHORT, "pairs": 300}
    nats = gap(claim("small-data"), "nats", few, {"model": "LSTM"}, {"model": "Transformer"}).mean
    yield f"the Transformer clearly is, by {nats:.2f} nats per word"
    kinds = ({"variation": kind} for kind in (LEARNED, SINUSOIDAL))
    most = gap(claim("positions"), "nats", {}, *kinds).high
    yield f"could be up to {most:.3f} nats behind the sinusoids"


def warm_ups() -> Iterator[str]:
    rows, post = claim("warm-up"), {"norm": "post", "clip": 1.0}
    gain = 100 * gap(rows, "right", post, {"warmup": 100}, {"warmup": 1}).mean
    yield f"post-norm gains {gain:.1f} points from a warm-up"


def live() -> Iterator[str]:
    [whole] = [line for line in tables.ablations().splitlines() if line.startswith("| nothing |")]
    yield f"the whole model scores {whole.split(' | ')[1]}."


def bugs() -> Iterator[str]:
    runs = recorded("steps")["rows"]
    cases = {case for case in steps.CASES if not case.startswith("no bug")}
    yield f"We took {len(cases)} bugs"
    checks = steps.STEPS["2. check"]
    checked = {case for case in cases if all(checks(run) for run in runs if run["case"] == case)}
    yield "finds half the bugs" if 2 * len(checked) == len(cases) else f"finds {len(checked)}"


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("04_feed_forward", feed_forward),
        ("10_translating", scores),
        ("10_translating", trainings),
        ("14_claims", speed_and_copying),
        ("14_claims", roots_data_and_positions),
        ("14_claims", warm_ups),
        ("15_bugs", bugs),
        ("live", live),
    ],
)
def test_numbers_in_the_text_are_those_of_the_records(page, said):
    text = prose(page)
    assert [words for words in said() if words not in text] == []

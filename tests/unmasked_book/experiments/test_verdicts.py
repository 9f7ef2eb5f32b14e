"""Verdicts follow from the measurements: each is given to rows that deserve it."""

import pytest

from unmasked_book.experiments import by_length, copying, root_of_width, small_data, verdicts
from unmasked_book.experiments.learning import LONG, SHORT
from unmasked_book.experiments.verdicts import NO, PARTLY, YES


def made(values, **where):
    """A row whose trials measured so much, with a little spread."""
    spread = (0.0, 0.01, -0.01, 0.005, -0.005)
    return {**where, "trials": [dict.fromkeys(("right", "surprise"), values + s) for s in spread]}


def judged(name, rows):
    return verdicts.VERDICTS[name](rows).word


@pytest.mark.parametrize(("seconds", "word"), [((2, 3), YES), ((0.5, 3), PARTLY), ((0.5, 0.9), NO)])
def test_verdict_by_length(seconds, word):
    rows = [
        {"threads": 2, "length": n, "model": model, "seconds": s if model != "Transformer" else 1.0}
        for n, s in zip((8, 16), seconds, strict=True)
        for model in by_length.MODELS
    ]
    assert judged("by-length", rows) == word


@pytest.mark.parametrize(
    ("right", "word"), [((0.2, 0.5, 0.9), YES), ((0.2, 0.88, 0.9), PARTLY), ((0.9, 0.5, 0.2), NO)]
)
def test_verdict_copying(right, word):
    rows = [made(r, letters=9, model=m) for r, m in zip(right, copying.MODELS, strict=True)]
    assert judged("copying", rows) == word


@pytest.mark.parametrize(
    ("gains", "word"),
    [((0.3, -0.3), YES), ((0.3, 0.3), PARTLY), ((0.3, 0.0), PARTLY), ((-0.3, 0.3), NO)],
)
def test_verdict_small_data(gains, word):
    rows = [made(1.0 + (gain if model == "Transformer" else 0.0), sentences=s, pairs=n, model=model)
            for s in (SHORT, LONG) for n, gain in zip((10, 99), gains, strict=True)
            for model in small_data.MODELS]  # fmt: skip
    assert judged("small-data", rows) == word


@pytest.mark.parametrize(
    ("gains", "word"), [((0.1, 0.5), YES), ((0.0, 0.5), PARTLY), ((0.5, 0.0), NO)]
)
def test_verdict_root_of_width(gains, word):
    rows = [made(0.2 + (gain if kind == "divided by √K" else 0.0), width=k, kind=kind)
            for k, gain in zip((4, 8), gains, strict=True)
            for kind in root_of_width.KINDS]  # fmt: skip
    assert judged("root-of-width", rows) == word


@pytest.mark.parametrize(
    ("cross_entropies", "word"), [((1, 0.5, 0.6), YES), ((1, 0.5, 1), PARTLY), ((1, 1, 2), NO)]
)
def test_verdict_heads(cross_entropies, word):
    names = ("1 head", "2 heads", "4 heads")
    rows = [made(s, variation=name) for s, name in zip(cross_entropies, names, strict=True)]
    assert judged("heads", rows) == word


@pytest.mark.parametrize(("gap", "word"), [(0.0, YES), (0.5, NO)])
def test_verdict_positions(gap, word):
    rows = [made(1.0, variation="sinusoidal"), made(1.0 + gap, variation="learned")]
    assert judged("positions", rows) == word


@pytest.mark.parametrize(
    ("shares", "word"), [((0.4, 0.3), YES), ((0.4, 0.0), PARTLY), ((0.0, 0.0), NO)]
)
def test_verdict_beyond(shares, word):
    rows = [
        {"positions": "sinusoidal", "lengths": [9, 10, 11],
         "trials": [[1.0, *(s + d if s else s for s in shares)] for d in (0, 0.01, -0.01)]},
        {"positions": "learned", "lengths": [9, 10, 11], "trials": [[1.0, 0.0, 0.0]] * 3},
    ]  # fmt: skip
    assert judged("beyond", rows) == word
    reason = verdicts.beyond(rows).reason
    assert ("no clear difference at 11 letters" in reason) == (word == PARTLY)


@pytest.mark.parametrize(
    ("post", "pre", "word"),
    [((0.4, 0.4), (0.0, 0.0), YES), ((0.0, 0.4), (0.0, 0.0), PARTLY),
     ((0.4, 0.4), (0.0, 0.4), PARTLY), ((0.0, 0.0), (0.4, 0.4), NO)],
)  # fmt: skip
def test_verdict_warm_up(post, pre, word):
    rows = [made(0.2 + (gain if warmup > 1 else 0.0), norm=norm, warmup=warmup, rate=rate)
            for norm, gains in (("post", post), ("pre", pre)) for warmup in (1, 50)
            for rate, gain in zip((1e-3, 1e-2), gains, strict=True)]  # fmt: skip
    assert judged("warm-up", rows) == word


@pytest.mark.parametrize(("times", "memory", "word"), [(2, 2, YES), (2, 1, PARTLY), (1, 1, NO)])
def test_verdict_squared(times, memory, word):
    lengths = [64, 128, 256, 512]
    scaling = {"seconds": {kind: [n**times for n in lengths] for kind in ("explicit", "fused")},
               "mebibytes": {"explicit": [n**2 if times > 1 else n for n in lengths],
                             "fused": [n**memory for n in lengths]}}  # fmt: skip
    assert verdicts.squared(scaling, lengths).word == word

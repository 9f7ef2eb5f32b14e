"""Numbers in the prose that come from recorded runs are the recorded ones."""

import json
import re

from helpers.pages import ROOT, prose
from unmasked_book import recorded
from unmasked_book.experiments import (
    by_length,
    copying,
    root_of_width,
    small_data,
    steps,
    variations,
    warm_up,
)
from unmasked_book.experiments.statistics import difference, interval, options, row, trials
from unmasked_book.live import tables


def test_the_scores_named_in_chapter_10_are_those_of_the_recorded_runs():
    text = prose("10_translating")
    runs = {name: recorded(f"multi30k-{name}") for name in ("en-de", "de-en")}
    scores = {name: run["float16"]["test_2016_flickr"] for name, run in runs.items()}
    ours = scores["en-de"]["beam 5"]
    assert "reached 41.02" in text
    assert f"Our {ours:.2f} is {ours - 41.02:.2f} above it." in text
    earlier = [recorded(f"multi30k-en-de-{name}")["float16"] for name in ("4000", "one-way")]
    first, second = (found["test_2016_flickr"]["beam 5"] for found in earlier)
    assert max(first, second) < 41.02
    assert f"So our {ours:.2f} may owe something to the third try" in text
    assert f"ours reaches {scores['de-en']['greedy']:.2f}" in text
    recipe = runs["en-de"]["training"]["recipe"]["training"]
    backwards = round(recipe["both_ways"] * recipe["steps"]) // 2
    assert f"{backwards:,} of the {recipe['steps']:,} steps" in text
    there = f"{runs['en-de']['interval']:.1f}"
    assert f"95% of the bootstrap's scores lie within {there} points of ours" in text
    for name, where in (("de-en", "German to English"), ("en-de", "English to German")):
        beam = runs[name]["beam"]
        assert beam["p"] < 0.025  # "clearly better"
        gain = f"{beam['difference']:.1f}"
        assert re.search(rf"by {gain}( points)? from {where} \(\$p\$ = {beam['p']:.3f}\)", text)


def test_what_chapter_10_says_about_the_longer_training_is_recorded():
    text = prose("10_translating")
    after = recorded("multi30k-de-en")
    recipe, other = (
        recorded(f"multi30k-{name}")["training"]["recipe"] for name in ("de-en", "en-de")
    )
    assert recipe["training"] == other["training"]
    assert recipe["model"] == other["model"]
    losses = {
        row["step"]: row["validation"]
        for row in after["training"]["history"]
        if "validation" in row
    }
    assert f"from {losses[4500]:.2f} to {losses[5500]:.2f} within a thousand steps" in text


def test_what_chapter_10_says_about_reversed_batches_is_recorded():
    text = prose("10_translating")
    with_them, without = (recorded(f"multi30k-{name}") for name in ("en-de", "en-de-one-way"))
    recipes = [run["training"]["recipe"] for run in (with_them, without)]
    assert recipes[0]["model"] == recipes[1]["model"]
    assert recipes[0]["data"] == recipes[1]["data"]
    both, one = (recipe["training"] for recipe in recipes)
    assert both == one | {"steps": 11500, "both_ways": 0.4}
    in_its_direction = both["steps"] - round(both["both_ways"] * both["steps"]) // 2
    assert in_its_direction < one["steps"]
    fewer = (
        f"saw fewer batches in its own direction ({in_its_direction:,} instead of {one['steps']:,})"
    )
    assert fewer in text
    for split in ("val", "test_2016_flickr"):  # "scores higher than the second"
        assert with_them["float16"][split]["beam 5"] > without["float16"][split]["beam 5"]


def test_what_chapter_10_says_about_dropout_is_recorded():
    text, found = prose("10_translating"), recorded("multi30k-dropout")
    runs = {(run["dropout"], run["seed"]): run for run in found["runs"]}
    assert {*runs} == {(dropout, seed) for dropout in (0.1, 0.3) for seed in (0, 1)}
    lower = {f"{runs[0.1, seed]['val'] - runs[0.3, seed]['val']:.2f}" for seed in (0, 1)}
    assert len(lower) == 1
    assert f"ends {lower.pop()} lower with either seed" in text
    for seed in (0, 1):
        few, more = (dict(map(tuple, runs[dropout, seed]["validation"])) for dropout in (0.1, 0.3))
        assert few[3000] > few[2000] - 0.02  # "stops falling, after some 2,000 steps"
        assert more[3000] < more[2000] - 0.1


def test_what_chapter_10_says_about_lengths_is_recorded():
    text = prose("10_translating")
    for name in ("en-de", "de-en"):
        run = recorded(f"multi30k-{name}")
        penalties = {float(k): v for k, v in run["penalties"].items()}
        best = max(penalties.values())
        assert penalties[run["training"]["length_penalty"]] == best
        assert penalties[max(penalties)] < best  # the maximum is inside
        assert round(best - penalties[0.6], 2) <= 0.5
    rows = recorded("multi30k-de-en")["by_length"]
    assert f"the {rows[-1]['sentences']} test sentences of {rows[-1]['from']} German words" in text
    assert f"reach only {rows[-1]['beam 5']:.1f} with the beam" in text
    for how in ("greedy", "beam 5"):
        assert min(row[how] for row in rows[:-1]) - rows[-1][how] > 10
    spread = max(rows[-1][f"{how}, interval"] for how in ("greedy", "beam 5"))
    gaps = [min(row[how] for row in rows[:-1]) - rows[-1][how] for how in ("greedy", "beam 5")]
    assert spread < min(gaps)  # "and the gap is larger"
    assert f"lie within {spread:.1f} points of it" in text
    assert f"{rows[-1]['of training']:.0%} of the pairs" in text


def test_what_chapter_10_says_about_short_trainings_is_recorded():
    text = prose("10_translating")
    ladder = recorded("multi30k-ladder")
    rungs = {rung["name"]: rung for rung in ladder["rungs"]}
    assert all(len(rung["bleu"]) == len(ladder["seeds"]) == 3 for rung in rungs.values())
    for name in ("post-norm", "pre-norm", "trapezoid"):
        tried = {float(rate): score for rate, score in rungs[name]["rates"].items()}
        assert len(tried) >= 4
        assert min(tried) < max(tried, key=tried.get) == rungs[name]["rate"] < max(tried)
    post, pre = (rungs[name]["bleu"] for name in ("post-norm", "pre-norm"))
    assert max(post) < 6.5
    assert 4 < min(pre[:2]) - pre[2] < 5

    def gains(name):
        below = rungs[rungs[name]["below"]]["bleu"]
        return [above - other for above, other in zip(rungs[name]["bleu"], below, strict=True)]

    others = [name for name in rungs if rungs[name]["below"] and name != "pre-norm"]
    largest = max(abs(gain) for name in others for gain in gains(name))
    assert min(gains("pre-norm")) > 2 * largest  # "the norm matters most"
    cool = gains("trapezoid")
    assert -1 < cool[0] < 0 < cool[1] < 1 < 4 < cool[2]
    assert rungs["trapezoid"]["p"][2] == 0.001
    assert min(gains("a wider feed-forward layer")) < 0 < max(gains("a wider feed-forward layer"))
    fewer, both = (
        sorted(-gain for gain in gains(name)) for name in ("4,000 subwords", "both directions")
    )
    assert f"falls by {fewer[0]:.1f} to {fewer[-1]:.1f} points" in text
    assert f"cost {both[0]:.1f} to {both[-1]:.1f} points" in text
    few, many = (rungs[name]["parameters"] for name in ("4,000 subwords", "both directions"))
    assert 0.17 < 1 - few / many < 0.23
    recipe = recorded("multi30k-en-de")["training"]["recipe"]["training"]
    short = rungs["trapezoid"]["set"]
    positions = short["training.steps"] * short["training.tokens"]
    assert 29 < recipe["steps"] * recipe["tokens"] / positions < 31.5
    assert 15 <= recipe["steps"] / short["training.steps"] < 15.5


def test_the_times_named_in_chapter_4_are_those_of_the_recorded_run():
    result = json.loads((ROOT / "src/unmasked_book/records/feed-forward-cpu.json").read_text())
    linear, convolution = (
        [f"{1000 * work['times'][f'unmasked, {kind}']['median']:.0f}" for work in result["works"]]
        for kind in ("linear", "convolution")
    )
    text = prose("04_feed_forward")
    assert f"a forward pass took {convolution[0]} ms instead of {linear[0]}" in text
    assert f"a training step {convolution[1]} instead of {linear[1]}" in text
    assert result["machine"]["date"] in text
    assert all(work["goals"][0]["measured"] < 1 for work in result["works"])


def mean_difference(rows, measured, where, a, b):
    return difference(
        trials(rows, measured, **where, **a), trials(rows, measured, **where, **b)
    ).mean


def claim(name):
    return recorded(f"claim-{name}")["rows"]


def test_what_chapter_13_says_about_steps_and_copying_is_recorded():
    text = prose("14_claims")
    rows, said = claim("by-length"), {}
    for lstm in by_length.LSTMS:
        shares = [
            row(rows, threads=2, length=n, model=lstm)["seconds"]
            / row(rows, threads=2, length=n, model="Transformer")["seconds"]
            for n in options(rows, "length")
        ]
        assert max(shares) < 1
        said[lstm] = shares
    parameters, multiplications = said.values()
    first, last = multiplications[0], multiplications[-1]
    assert f"{first:.2f} of the Transformer's time at 16 words and {last:.2f} at 2,048" in text
    assert all(0.45 < share < 0.6 for share in parameters[1:-1])
    ends = f"{parameters[0]:.2f} at 16 words, about half from 32 to 1,024, and {parameters[-1]:.2f}"
    assert f"no steady trend: {ends} at 2,048" in text
    rows = claim("copying")
    far = {model: interval(trials(rows, "right", letters_a_row=64, model=model)).mean
           for model in copying.MODELS}  # fmt: skip
    plain, attending, stronger, transformer = far.values()
    assert 4.5e-5 < 1 - transformer < 5.5e-5
    assert 500 < 1 / (1 - stronger) < 650
    assert "one letter in twenty thousand, and the better LSTM one in six hundred" in text
    assert f"Attention gains the one-layer LSTM {100 * (attending - plain):.0f} points" in text
    assert f"the Transformer in its place gains {100 * (transformer - attending):.1f}" in text
    errors = [1 - share for share in (plain, attending, transformer)]
    assert 190 < errors[0] / errors[1] < 220
    assert 55 < errors[1] / errors[2] < 65
    assert "leaves 1/200 of its errors" in text
    assert "leaves 1/60 of those" in text


def test_what_chapter_13_says_about_distance_is_recorded():
    text, near, far = prose("14_claims"), claim("distance"), claim("farther")
    without, *attending = copying.MODELS
    lost = mean_difference(
        near, "right", {"model": without}, {"blanks": 0}, {"blanks": copying.BLANKS}
    )
    assert f"28 on either side already cost it {100 * lost:.0f} points" in text
    widest = []
    for rows, blanks in ((near, copying.BLANKS), (far, copying.FAR)):
        ours = trials(rows, "right", blanks=blanks, model="Transformer")
        for model in attending:
            amid = trials(rows, "right", blanks=blanks, model=model)
            alone = trials(near, "right", blanks=0, model=model)
            widest += [abs(end) for end in difference(alone, amid)]
            if model != "Transformer":
                widest += [abs(end) for end in difference(ours, amid)]
    assert 0.05 < 100 * max(widest) < 0.06
    assert "the other three lose at most 0.06 points each" in text
    assert "the Transformer is within 0.06 of the other two" in text
    assert (8 + copying.BLANKS, 8 + copying.FAR) == (36, 64)
    assert "36 or 64 positions after it was read" in text


def test_what_chapter_13_says_about_the_square_root_is_recorded():
    text = prose("14_claims")
    rows = claim("root-of-width")
    divided, undivided, smaller = ({"kind": kind} for kind in root_of_width.KINDS)
    lost = {}
    for name, kind in (("undivided", undivided), ("smaller", smaller)):
        lost[name] = [
            100 * mean_difference(rows, "right", {"width": k}, divided, kind)
            for k in options(rows, "width")
        ]
    assert "loses {:.1f}, {:.1f} and {:.1f} points".format(*lost["undivided"]) in text
    assert "it loses only {:.1f}, {:.1f} and {:.1f} points".format(*lost["smaller"]) in text
    best = [row(rows, width=64, kind=kind)["rate"] for kind in root_of_width.KINDS[:2]]
    assert best[0] == 4 * best[1]
    assert "best rates differ by a factor of four" in text


def test_what_chapter_13_says_about_data_heads_and_positions_is_recorded():
    text = prose("14_claims")
    few = {"sentences": small_data.SHORT, "pairs": 300}
    gap = mean_difference(
        claim("small-data"), "nats", few, {"model": "LSTM"}, {"model": "Transformer"}
    )
    assert f"the Transformer clearly is, by {gap:.2f} nats per word" in text
    rows = claim("heads")
    nats = {v: interval(trials(rows, "nats", variation=v)).mean for v in options(rows, "variation")}
    assert 0.3 < 1 - nats["8 heads"] / nats["1 head"] < 0.36
    assert "a third less cross-entropy than one" in text
    assert 0.06 < 1 - nats["8 heads"] / nats["4 heads"] < 0.073
    assert "eight heads have a cross-entropy one fifteenth lower than four" in text
    rows = claim("positions")
    waves = {"variation": variations.SINUSOIDAL}
    less = {
        kind: mean_difference(rows, "nats", {}, {"variation": kind}, waves)
        for kind in (variations.LEARNED, variations.SCALED)
    }
    learned, sinusoids = (trials(rows, "nats", variation=kind)
                          for kind in (variations.LEARNED, variations.SINUSOIDAL))  # fmt: skip
    most = difference(learned, sinusoids).high
    assert f"could be up to {most:.3f} nats behind the sinusoids" in text
    assert less[variations.SCALED] < 0 < less[variations.LEARNED]


def test_what_chapter_13_says_about_warm_up_is_recorded():
    text = prose("14_claims")
    rows = claim("warm-up")

    def gain(norm):
        at = {"norm": norm, "clip": 1.0}
        return 100 * mean_difference(rows, "right", at, {"warmup": 100}, {"warmup": 1})

    assert f"post-norm gains {gain('post'):.1f} points from a warm-up" in text
    assert abs(gain("pre")) < 0.1
    for clip in warm_up.CLIPS:
        for warmup in warm_up.WARM_UPS:
            at = {"clip": clip, "warmup": warmup}
            lead = mean_difference(rows, "right", at, {"norm": "pre"}, {"norm": "post"})
            assert 0.04 < lead < 0.08
    assert "pre-norm is four to eight points ahead" in text


def test_the_live_page_says_what_its_table_of_switched_off_parts_says():
    assert "| nothing | 50.0 |" in tables.ablations()
    page = (ROOT / "book/live.md").read_text(encoding="utf-8")
    assert "the whole model scores 50.0." in page


def test_what_chapter_14_says_about_the_steps_is_recorded():
    text, runs = prose("15_bugs"), recorded("steps")["rows"]
    of = {case: [run for run in runs if run["case"] == case] for case in steps.CASES}
    found = {case: {step for step, fails in steps.STEPS.items() if all(map(fails, of[case]))}
             for case in of}  # fmt: skip
    ever = {case: {step for step, fails in steps.STEPS.items() if any(map(fails, of[case]))}
            for case in of}  # fmt: skip
    bugs = {case for case in of if not case.startswith("no bug")}
    assert f"{len(bugs)} bugs" in text
    assert not ever["no bug"]
    by_check = {case for case in bugs if "2. check" in found[case]}
    trained = {step for step in steps.STEPS if "3" <= step < "8"}
    by_training = {case for case in bugs if found[case] & trained}
    assert 2 * len(by_check) == len(bugs)
    untrained = {case for case in by_training if found[case] & trained == {"3. first loss"}}
    assert untrained == {"padding in the divisor"}
    assert len(by_training - untrained - by_check) == 9
    assert by_check - by_training == {
        "the wrong matrix", "no positions", "positions along the batch", "no residual",
    }  # fmt: skip
    others = {"ignore_index forgotten", "a missing √d", "the wrong activation"}
    assert bugs - by_check - by_training == others | {"a wrong square root"}
    assert all("a plain loop" in found[case] for case in (*others, "a wrong square root"))
    assert {case for case in bugs if "a plain loop" not in ever[case]} == {
        "pairs out of step", "positions that start anew", "a start that is too large",
    }  # fmt: skip
    unaided = {case: sum(run["unaided"] for run in of[case]) / 3 for case in of}
    assert 0.06 < unaided["no bug"] - unaided["a wrong square root"] < 0.08
    assert all(abs(unaided["no bug"] - unaided[case]) < 0.05 for case in others)
    assert max(unaided[case] for case in ("no positions", "positions along the batch")) < 0.05
    enough, found_by_5 = {"4. by heart", "6. swap"}, "5. baseline"
    like_too_little = {case for case in of if found_by_5 in found[case] and not ever[case] & enough}
    assert like_too_little == {"layers in a list", "no bug, a tenth of the training"}

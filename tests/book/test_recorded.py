"""Numbers in the prose that come from recorded runs are the recorded ones."""

import json

from pages import ROOT, prose

from unmasked_book import recorded
from unmasked_book.experiments.statistics import difference, interval, row, trials


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
    assert f"the first two reached {first:.2f} and {second:.2f} on this test set." in text
    assert f"and ours {scores['de-en']['greedy']:.2f}" in text
    recipe = runs["en-de"]["training"]["recipe"]["training"]
    backwards = round(recipe["both_ways"] * recipe["steps"]) // 2
    assert f"{backwards:,} of the {recipe['steps']:,} updates" in text
    there, back = (f"±{runs[name]['interval']:.1f}" for name in ("en-de", "de-en"))
    assert f"by {there} from English to German and by {back} from German to English" in text
    assert all(run["beam"]["p"] < 0.05 for run in runs.values())


def test_what_chapter_10_says_about_the_longer_training_is_recorded():
    text = prose("10_translating")
    before, after = (recorded(f"multi30k-{name}") for name in ("de-en-4000", "de-en"))
    recipe, other = (
        recorded(f"multi30k-{name}")["training"]["recipe"] for name in ("de-en", "en-de")
    )
    assert recipe["training"] == other["training"]
    assert recipe["model"] == other["model"]
    val, test = (
        f"{after['float16'][split]['beam 5']:.2f} instead of {before['float16'][split]['beam 5']}"
        for split in ("val", "test_2016_flickr")
    )
    assert f"{val} on the validation set, and {test} on the test set" in text


def test_what_chapter_10_says_about_lengths_is_recorded():
    text = prose("10_translating")
    for name in ("en-de", "de-en"):
        run = recorded(f"multi30k-{name}")
        penalties = {float(k): v for k, v in run["penalties"].items()}
        best = max(penalties.values())
        assert penalties[run["training"]["length_penalty"]] == best
        assert penalties[max(penalties)] < best  # the maximum is inside
        assert best - penalties[0.6] < 0.5
    rows = recorded("multi30k-de-en")["by_length"]
    assert f"only {rows[-1]['sentences']} of them" in text
    others = [row["beam 5"] for row in rows[:-1]]
    assert 6 < min(others) - rows[-1]["beam 5"] < max(others) - rows[-1]["beam 5"] < 15


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
    assert 3.5 < min(post) < max(post) < 6.5
    assert round(sum(pre) / 3) == 22
    assert 4 < min(pre[:2]) - pre[2] < 5
    first, _, third = rungs["pre-norm"]["words"]
    assert f"{third} words a caption instead of {first}" in text

    def gains(name):
        below = rungs[rungs[name]["below"]]["bleu"]
        return [above - other for above, other in zip(rungs[name]["bleu"], below, strict=True)]

    cool = gains("trapezoid")
    assert -1 < cool[0] < 0 < cool[1] < 1 < 4 < cool[2]
    assert rungs["trapezoid"]["p"][2] == 0.001
    assert min(gains("a wider feed-forward layer")) < 0 < max(gains("a wider feed-forward layer"))
    fewer, both = (
        sorted(-gain for gain in gains(name)) for name in ("4,000 subwords", "both directions")
    )
    assert f"falls by {fewer[0]:.1f} to {fewer[-1]:.1f} points" in text
    assert 2.5 < both[0] < both[-1] < 3
    few, many = (rungs[name]["parameters"] for name in ("4,000 subwords", "both directions"))
    assert 0.17 < 1 - few / many < 0.23
    whole = recorded("multi30k-en-de")
    assert f"reaches {whole['float16']['val']['greedy']} by the same measure" in text
    recipe = whole["training"]["recipe"]["training"]
    short = rungs["trapezoid"]["set"]
    positions = short["training.steps"] * short["training.tokens"]
    assert 29 < recipe["steps"] * recipe["tokens"] / positions < 31.5


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


def test_the_numbers_in_chapter_12_are_those_of_the_recorded_runs():
    text = prose("13_claims")
    rows = {
        name: recorded(f"claim-{name}")["rows"]
        for name in ("copying", "small-data", "root-of-width", "positions", "warm-up", "by-length")
    }

    def right(norm, warmup, rate):
        found = trials(rows["warm-up"], "right", norm=norm, warmup=warmup, rate=rate)
        return 100 * interval(found).mean

    costs = {norm: right(norm, 1, 1e-3) - right(norm, 100, 1e-3) for norm in ("post", "pre")}
    assert f"it costs post-norm {costs['post']:.0f} points and pre-norm {costs['pre']:.1f}" in text
    for rate in (1e-3, 3e-3, 1e-2):
        assert all(right("pre", warmup, rate) > right("post", warmup, rate) for warmup in (1, 100))
    learned, computed = (
        interval(trials(rows["positions"], "surprise", variation=v)).mean
        for v in ("learned", "sinusoidal")
    )
    assert 1.3 < learned / computed < 1.37
    assert "a table is a third more surprised" in text
    sizes = [each["parameters"] for each in rows["small-data"]]
    assert (round(min(sizes), -3), round(max(sizes), -3)) == (287_000, 291_000)
    assert "parameters (287,000 to 291,000)" in text
    rates = {w: row(rows["root-of-width"], width=w, kind="not divided")["rate"] for w in (64, 256)}
    assert set(rates.values()) == {1e-3}
    assert "the lower of our two rates at 64 and at 256" in text
    gap = difference(
        *(
            trials(rows["copying"], "right", letters=64, model=m)
            for m in ("Transformer", "LSTM with attention")
        )
    )
    assert 0.003 < gap.mean < 0.0037
    assert "remaining lead, a third of a point" in text
    leads = [
        row(rows["by-length"], threads=2, length=n, model="LSTM with attention")["seconds"]
        / row(rows["by-length"], threads=2, length=n, model="Transformer")["seconds"]
        for n in (16, 64, 128, 256, 512, 1024, 2048)
    ]
    assert max(leads) < 1
    assert leads[0] < leads[1]
    assert leads[2:] == sorted(leads[2:], reverse=True)
    seconds = json.loads((ROOT / "src/unmasked_book/records/cpu.json").read_text())["scaling"][
        "seconds"
    ]
    explicit, fused = (seconds[kind][1] / seconds[kind][0] for kind in ("explicit", "fused"))
    assert f"{explicit:.1f} times as much written down and {fused:.1f} times fused" in text

"""Each case climbs its ladder by seeds of its own; and each training is run once."""

import pytest

from unmasked_book.experiments.procedure import LADDERS, TUNERS, Experiment

RATES = LADDERS["rate"]


def experiment(loss):
    """A trial whose loss depends on its options; all jobs are noted."""
    jobs = []

    def trial(**options):
        jobs.append(options)
        return {"validation": loss(**options), "right": options["seed"] / 10}

    cases = [{"kind": "a"}, {"kind": "b"}]
    return Experiment(trial, cases, {"rate": RATES[4:7]}, seeds=3), jobs


@pytest.mark.parametrize("best", [0, 4, 9])
def test_the_ladder_is_climbed_until_both_neighbours_are_worse(best):
    made, jobs = experiment(lambda rate, **_: abs(RATES.index(rate) - best))
    row = next(made.rows())
    assert row["rate"] == RATES[best]
    tried = {float(rate): loss for rate, loss in row["tried"]["rate"].items()}
    assert set(RATES[max(0, best - 1) : best + 2]) <= set(tried)
    assert tried == {rate: abs(RATES.index(rate) - best) for rate in tried}
    assert len(jobs) == len(TUNERS) * len(tried) + 3


def test_each_case_climbs_for_itself_and_seeds_that_choose_are_not_reported():
    made, jobs = experiment(lambda rate, kind, **_: abs(RATES.index(rate) - {"a": 3, "b": 7}[kind]))
    rows = list(made.rows())
    assert [row["rate"] for row in rows] == [RATES[3], RATES[7]]
    assert all([x["right"] for x in row["trials"]] == [0, 0.1, 0.2] for row in rows)
    assert {job["seed"] for job in jobs} == {*TUNERS, 0, 1, 2}
    assert not set(TUNERS) & set(range(made.seeds))

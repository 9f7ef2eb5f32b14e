"""How models are compared: each at options of its own, and by seeds that had no part in choosing.

Every option that a model may choose, its learning rate above all, is tried step by step along a
ladder, until the best on validation data has a worse neighbour on either side.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import Any, NamedTuple

LADDERS: Mapping[str, tuple[float, ...]] = {
    "rate": tuple(0.000125 * 2**k for k in range(10)),  # 0.000125, 0.00025, … 0.064
}
TUNERS = (1000, 1001)  # the seeds of trainings that choose; their results are not reported

Job = dict[str, Any]
Results = Callable[[Sequence[Job]], list[dict[str, Any]]]


class Experiment(NamedTuple):
    """What is compared: `trial(seed=…, **case, **choices)` measures one training."""

    trial: Callable[..., dict[str, Any]]
    cases: Sequence[Mapping[str, Any]]
    begin: Mapping[str, Sequence[float]]  # the rungs of its ladders that are tried first
    seeds: int = 10

    def rows(self, results: Results | None = None) -> Iterator[dict[str, Any]]:
        """A row for each case; `results` runs trainings, one after the other by default."""
        for case in self.cases:
            yield self.row(case, results or self.one_by_one)

    def row(self, case: Mapping[str, Any], results: Results) -> dict[str, Any]:
        choices, tried = self.tuned(case, results)
        jobs = [{**case, **choices, "seed": seed} for seed in range(self.seeds)]
        return {**case, **choices, "tried": tried, "trials": results(jobs)}

    def tuned(
        self, case: Mapping[str, Any], results: Results
    ) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
        """The best options, one after the other, and the mean validation loss of all that were
        tried. (The loss may be any number that is better the lower it is.)
        """
        best = {name: values[len(values) // 2] for name, values in self.begin.items()}
        tried: dict[str, dict[str, float]] = {}
        for name, values in self.begin.items():
            losses: dict[float, float] = {}
            missing = list(values)
            while missing:
                jobs = [{**case, **best, name: value, "seed": seed}
                        for value, seed in product(missing, TUNERS)]  # fmt: skip
                found = iter([result["validation"] for result in results(jobs)])
                losses |= {value: fmean(next(found) for _ in TUNERS) for value in missing}
                missing = beyond(LADDERS[name], losses)
            best[name] = min(losses, key=lambda value: losses[value])
            tried[name] = {f"{value:g}": losses[value] for value in sorted(losses)}
        return best, tried

    def one_by_one(self, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        return [self.trial(**job) for job in jobs]


def beyond(ladder: Sequence[float], losses: Mapping[float, float]) -> list[float]:
    """The rung after the best one, where the best one is at an end of what was tried."""
    at = ladder.index(min(losses, key=lambda value: losses[value]))
    return [ladder[i] for i in (at - 1, at + 1) if 0 <= i < len(ladder) and ladder[i] not in losses]

"""The experiments of chapter 15: each measures one claim, in small there and in full recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from unmasked_book.experiments import (
    beyond,
    by_length,
    captions,
    copying,
    root_of_width,
    small_data,
    variations,
    warm_up,
)
from unmasked_book.experiments.procedure import Experiment

EXPERIMENTS: Mapping[str, Experiment] = {
    "copying": copying.EXPERIMENT,
    "distance": copying.DISTANCE,
    "farther": copying.FARTHER,
    "forget-gate": copying.FORGET_GATE,
    "blank-gate": copying.BLANK_GATE,
    "places": copying.PLACES,
    "small-data": small_data.EXPERIMENT,
    "longer": small_data.LONGER,
    "rival": small_data.RIVAL,
    "root-of-width": root_of_width.EXPERIMENT,
    "smaller-steps": root_of_width.SMALLER_STEPS,
    "steps-alone": root_of_width.STEPS_ALONE,
    "heads": variations.experiment(variations.HEADS),
    "positions": variations.experiment(variations.POSITIONS),
    "beyond": beyond.EXPERIMENT,
    "warm-up": warm_up.EXPERIMENT,
    "captions-heads": captions.HEADS,
    "captions-warm-up": captions.WARM_UP,
    "captions-small-data": captions.SMALL_DATA,
}
TIMED: Mapping[str, Callable[..., Iterator[dict[str, Any]]]] = {"by-length": by_length.measure}
"""By name, as they are recorded (`benchmarks/claims.py`): trainings, and what is timed."""

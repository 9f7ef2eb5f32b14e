"""Chapter 15's experiments that can be recorded again; appendix A has the records of all others."""

from collections.abc import Mapping

from unmasked_book.experiments import root_of_width, several_heads, warm_up
from unmasked_book.experiments.procedure import Experiment

EXPERIMENTS: Mapping[str, Experiment] = {
    "root-of-width": root_of_width.EXPERIMENT,
    "heads": several_heads.EXPERIMENT,
    "warm-up": warm_up.EXPERIMENT,
}
"""By name, as they are recorded (`benchmarks/claims.py`)."""

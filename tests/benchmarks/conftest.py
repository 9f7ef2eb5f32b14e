"""The benchmarks are scripts beside each other: they are found as when one of them is run."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

"""Trains models: `fit` is the shortest loop; `train` can be resumed and use several processes."""

from .fit import fit
from .history import History
from .processes import processes
from .recipe import Recipe, rate_at
from .trainer import train

__all__ = ["History", "Recipe", "fit", "processes", "rate_at", "train"]

"""Training: the shortest loop, and the one that is measured, killed, resumed and shared out."""

from .fit import fit
from .history import History
from .processes import processes
from .recipe import Recipe, rate_at
from .trainer import train

__all__ = ["History", "Recipe", "fit", "processes", "rate_at", "train"]

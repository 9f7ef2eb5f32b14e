"""Training: the shortest loop, and the one that is measured, killed, resumed and shared out."""

from .fit import fit
from .history import History
from .loop import train
from .processes import processes
from .recipe import Recipe, rate_at

__all__ = ["History", "Recipe", "fit", "processes", "rate_at", "train"]

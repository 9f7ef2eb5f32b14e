"""The Transformer, Unmasked: one small, tested implementation that equals PyTorch.

To be read first: plain.py, the whole Transformer in one file, which imports nothing of ours. The
floors of the rest; a file imports only from names before its own, or from its own folder:

    errors tokens machine config
    masks products layers positions kernels attention feed_forward encoder decoder looks transformer
    structure chunked_loss loss search
    text storage translator evaluation interop
    plots training checking testing cli __main__
"""

import signal
import sys
from importlib import import_module
from typing import Any

if sys.argv[0] == "-m" or sys.argv[0].endswith("unmasked"):  # a command: until `cli.main` takes
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # over, Ctrl-C ends it without a traceback

from . import (
    attention,
    decoder,
    encoder,
    feed_forward,
    interop,
    loss,
    masks,
    plain,
    positions,
    search,
)
from .attention import AttentionMaps, MultiHeadAttention
from .checking.check import check
from .config import PRESETS, LayerConfig, TransformerConfig
from .machine import device
from .search import beam, greedy, sample
from .text.corpus import Corpus
from .training.fit import fit
from .training.recipe import Recipe
from .training.run import train_files
from .training.trainer import train
from .transformer import Transformer
from .translator import Translator, load

__version__ = "0.3.0"
__all__ = [
    "PRESETS",
    "AttentionMaps",
    "Corpus",
    "LayerConfig",
    "MultiHeadAttention",
    "Recipe",
    "Transformer",
    "TransformerConfig",
    "Translator",
    "attention",
    "beam",
    "check",
    "decoder",
    "device",
    "encoder",
    "feed_forward",
    "fit",
    "greedy",
    "interop",
    "load",
    "loss",
    "masks",
    "plain",
    "plots",
    "positions",
    "sample",
    "search",
    "train",
    "train_files",
]


def __getattr__(name: str) -> Any:
    """Imports `unmasked.plots` when it is first used: matplotlib takes a second."""
    if name == "plots":
        return import_module("unmasked.plots")
    raise AttributeError(f"module 'unmasked' has no attribute {name!r}")

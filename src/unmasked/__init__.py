"""The Transformer, Unmasked: one small, tested implementation that equals PyTorch."""

from . import attention, decoder, encoder, feed_forward, interop, masks, positions, search
from .attention import MultiHeadAttention
from .config import PRESETS, LayerConfig, TransformerConfig
from .inspection.check import check
from .inspection.maps import AttentionMaps
from .training.machine import device
from .transformer import Transformer
from .translator import load

__version__ = "0.2.0"
__all__ = [
    "PRESETS",
    "AttentionMaps",
    "LayerConfig",
    "MultiHeadAttention",
    "Transformer",
    "TransformerConfig",
    "attention",
    "check",
    "decoder",
    "device",
    "encoder",
    "feed_forward",
    "interop",
    "load",
    "masks",
    "positions",
    "search",
]

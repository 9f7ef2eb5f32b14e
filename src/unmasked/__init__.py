"""The Transformer, Unmasked: one small, tested implementation that a whole book runs on."""

from . import attention, decoder, encoder, feed_forward, interop, masks, positions, search
from .attention import MultiHeadAttention
from .config import PRESETS, LayerConfig, TransformerConfig
from .devices import device
from .inspection.check import check
from .recorded import recorded
from .shipped import load
from .source import show
from .transformer import AttentionMaps, Transformer

__version__ = "0.1.0"
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
    "recorded",
    "search",
    "show",
]

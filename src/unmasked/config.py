"""Defines configurations, frozen dataclasses that hold every choice that makes a model."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Literal

from .errors import (
    invalid,
    require_choice,
    require_heads,
    require_number,
    require_probability,
    require_whole,
)

NORMS = ("post", "pre")
POSITIONS = ("sinusoidal", "learned")
FEED_FORWARDS = ("linear", "conv")
ACTIVATIONS = ("relu", "gelu", "swish")
LAYERS = 10_000  # at most, in each stack
TABLE = 1 << 26  # numbers in a table of sinusoids at most: 131,072 positions of width 512


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """A LayerConfig holds the sizes and options of one encoder or decoder layer."""

    d_model: int = 512
    n_heads: int = 8
    d_ff: int = 2048
    dropout: float = 0.1  # on embeddings and on the sublayers' outputs
    inner_dropout: float | None = None  # on attention weights and within d_ff; None: as dropout
    norm: Literal["post", "pre"] = "post"  # after the sum, as in the paper, or before the sublayer
    norm_eps: float = 1e-5
    feed_forward: Literal["linear", "conv"] = "linear"
    activation: Literal["relu", "gelu", "swish"] = "relu"
    bias: bool = True  # beside the sublayers' matrices
    attention_bias: bool | None = None  # beside those of attention; None: as bias

    def __post_init__(self) -> None:
        require_choice("norm", self.norm, NORMS)
        require_choice("feed_forward", self.feed_forward, FEED_FORWARDS)
        require_choice("activation", self.activation, ACTIVATIONS)
        require_probability("dropout", self.dropout)
        require_probability("inner_dropout", self.dropout_inside)
        require_number("norm_eps", self.norm_eps, 1e-30, 1.0, "PyTorch's own is 1e-5")
        require_choice("bias", self.bias, (True, False))
        require_choice("attention_bias", self.attention_bias, (True, False, None))
        require_heads(self.d_model, self.n_heads)
        require_whole("d_ff", self.d_ff, 1)

    @property
    def dropout_inside(self) -> float:
        """Returns the dropout probability on attention weights and within the feed-forward net."""
        return self.dropout if self.inner_dropout is None else self.inner_dropout

    def attention_options(self) -> dict[str, Any]:
        bias = self.bias if self.attention_bias is None else self.attention_bias
        return {"dropout": self.dropout_inside, "bias": bias}

    def feed_forward_options(self) -> dict[str, Any]:
        own = {"kind": self.feed_forward, "activation": self.activation}
        return {"dropout": self.dropout_inside, "bias": self.bias, **own}


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(LayerConfig):
    """A TransformerConfig describes a whole encoder-decoder; only vocabulary sizes have no default.

    Four defaults differ from the preset `base`, the paper's, which makes embeddings and output one
    matrix (`tie_embeddings`), has no biases in attention (`attention_bias`) and no dropout within
    sublayers (`inner_dropout`; by default 0.1, as `dropout`), and draws embeddings with deviation
    1/√512 (`embedding_std`; by default Glorot-uniform, as all other matrices).
    """

    source_vocab: int
    target_vocab: int
    n_layers: int = 6
    n_decoder_layers: int | None = None  # None: as n_layers
    final_norm: bool | None = None  # after the last layer; None: with pre-norm only, which needs it
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_len: int = 5000
    scale_embeddings: bool = True  # multiplies them by √d_model (section 3.4)
    embedding_std: float | None = None  # deviation of their first numbers; None: Glorot's uniform
    tie_embeddings: bool | Literal["output"] = False  # one matrix: all three, or target and output
    output_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("positions", self.positions, POSITIONS)
        require_choice("tie_embeddings", self.tie_embeddings, (False, True, "output"))
        require_choice("final_norm", self.final_norm, (True, False, None))
        for name in ("scale_embeddings", "output_bias"):
            require_choice(name, getattr(self, name), (True, False))
        if (deviation := self.embedding_std) is not None:
            require_number("embedding_std", deviation, 0.0, 1e6, "None stands for Glorot's bound")
        for name in ("source_vocab", "target_vocab", "max_len"):
            require_whole(name, getattr(self, name))
        require_whole("n_layers", self.n_layers, most=LAYERS)
        require_whole("n_decoder_layers", self.decoder_layers, most=LAYERS)
        longest = TABLE // self.d_model  # 0 for a width that no memory has room for
        if self.positions == "sinusoidal" and longest and self.max_len > longest:
            fix = "choose a smaller one: positions beyond it are computed when they are met"
            raise invalid("max_len", f"at most {longest:,}", self.max_len, fix)
        if self.tie_embeddings is True and self.source_vocab != self.target_vocab:
            fix = "share one vocabulary, or tie_embeddings='output' to tie target and output only"
            got = f"{self.source_vocab} and {self.target_vocab}"
            raise invalid("tie_embeddings", "two vocabularies of one size", got, fix)

    @property
    def decoder_layers(self) -> int:
        return self.n_layers if self.n_decoder_layers is None else self.n_decoder_layers

    @property
    def reach(self) -> int:
        """Returns the most tokens that can have positions: `max_len` if learned, else no limit."""
        return self.max_len if self.positions == "learned" else sys.maxsize

    @property
    def has_final_norm(self) -> bool:
        return self.norm == "pre" if self.final_norm is None else self.final_norm

    @classmethod
    def preset(
        cls, name: str, *, source_vocab: int, target_vocab: int, **changes: Any
    ) -> TransformerConfig:
        """Returns the configuration `name` of `PRESETS` with these vocabularies and changes."""
        require_choice("name", name, tuple(PRESETS))
        options = {**PRESETS[name], **changes}
        return cls(source_vocab=source_vocab, target_vocab=target_vocab, **options)


PAPER = {"inner_dropout": 0.0, "attention_bias": False, "tie_embeddings": True}
BIG = {"d_model": 1024, "n_heads": 16, "d_ff": 4096, "dropout": 0.3}
PRESETS: dict[str, dict[str, Any]] = {  # the paper's two models (table 3)
    "base": {**PAPER, "embedding_std": 512**-0.5},
    "big": {**BIG, **PAPER, "embedding_std": 1024**-0.5},
}

"""Every choice that makes a model, in one frozen dataclass."""

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
    """What one encoder or decoder layer needs to know."""

    d_model: int = 512
    n_heads: int = 8
    d_ff: int = 2048
    dropout: float = 0.1  # on embeddings, sublayer outputs, and inside the sublayers unless …
    inner_dropout: float | None = None  # … this says otherwise for attention weights and d_ff
    norm: Literal["post", "pre"] = "post"  # after the sum, as in the paper, or before the sublayer
    norm_eps: float = 1e-5
    feed_forward: Literal["linear", "conv"] = "linear"
    activation: Literal["relu", "gelu", "swish"] = "relu"
    bias: bool = True  # in the sublayers' matrices, unless …
    attention_bias: bool | None = None  # … this says otherwise for attention's

    def __post_init__(self) -> None:
        require_choice("norm", self.norm, NORMS)
        require_choice("feed_forward", self.feed_forward, FEED_FORWARDS)
        require_choice("activation", self.activation, ACTIVATIONS)
        require_probability("dropout", self.dropout)
        if self.inner_dropout is not None:
            require_probability("inner_dropout", self.inner_dropout)
        require_number("norm_eps", self.norm_eps, 1e-30, 1.0, "PyTorch's own is 1e-5")
        require_choice("bias", self.bias, (True, False))
        require_choice("attention_bias", self.attention_bias, (True, False, None))
        require_heads(self.d_model, self.n_heads)
        require_whole("d_ff", self.d_ff, 1)

    @property
    def dropout_inside(self) -> float:
        """On attention weights, and between the feed-forward network's two layers."""
        return self.dropout if self.inner_dropout is None else self.inner_dropout

    def attention_options(self) -> dict[str, Any]:
        bias = self.bias if self.attention_bias is None else self.attention_bias
        return {"dropout": self.dropout_inside, "bias": bias}

    def feed_forward_options(self) -> dict[str, Any]:
        return {
            "dropout": self.dropout_inside,
            "bias": self.bias,
            "kind": self.feed_forward,
            "activation": self.activation,
        }


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(LayerConfig):
    """A whole encoder-decoder. Only the vocabularies have no default. Preset `base`, the paper's,
    differs in four: ties, biases of attention, dropout inside sublayers, initial embeddings.
    """

    source_vocab: int
    target_vocab: int
    n_layers: int = 6
    n_decoder_layers: int | None = None  # as many as n_layers
    final_norm: bool | None = None  # after the last layer; None: with pre-norm only, which needs it
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_len: int = 5000
    scale_embeddings: bool = True  # times √d_model (section 3.4)
    embedding_std: float | None = None  # of their initial normal distribution; None: Glorot's bound
    tie_embeddings: bool | Literal["output"] = False  # one matrix: all three, or target and output
    output_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("positions", self.positions, POSITIONS)
        require_choice("tie_embeddings", self.tie_embeddings, (False, True, "output"))
        require_choice("final_norm", self.final_norm, (True, False, None))
        require_choice("scale_embeddings", self.scale_embeddings, (True, False))
        require_choice("output_bias", self.output_bias, (True, False))
        if self.embedding_std is not None:
            fix = "None stands for Glorot's bound"
            require_number("embedding_std", self.embedding_std, 0.0, 1e6, fix)
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
        """How many tokens have a position: sinusoids go on, a learned table ends."""
        return self.max_len if self.positions == "learned" else sys.maxsize

    @property
    def has_final_norm(self) -> bool:
        return self.norm == "pre" if self.final_norm is None else self.final_norm

    @classmethod
    def preset(
        cls, name: str, *, source_vocab: int, target_vocab: int, **changes: Any
    ) -> TransformerConfig:
        """A model known by name (`PRESETS`), with your vocabularies and any changes."""
        require_choice("name", name, tuple(PRESETS))
        options = {**PRESETS[name], **changes}
        return cls(source_vocab=source_vocab, target_vocab=target_vocab, **options)


# The paper's two models (table 3).
PAPER = {"inner_dropout": 0.0, "attention_bias": False, "tie_embeddings": True}
PRESETS: dict[str, dict[str, Any]] = {
    "base": {**PAPER, "embedding_std": 512**-0.5},
    "big": {
        "d_model": 1024,
        "n_heads": 16,
        "d_ff": 4096,
        "dropout": 0.3,
        **PAPER,
        "embedding_std": 1024**-0.5,
    },
}

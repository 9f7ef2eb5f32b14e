"""Every choice that makes a model, in one frozen dataclass, and the models known by name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from .feed_forward import ACTIVATIONS, KINDS
from .validation import (
    check_at_least,
    check_choice,
    check_heads_divide,
    check_number,
    check_probability,
    invalid,
)

T = TypeVar("T")


def _first(value: T | None, default: T) -> T:
    return default if value is None else value


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
    activation: Literal["relu", "gelu"] = "relu"
    bias: bool = True  # in projections and norms; the next two overrule it for their part
    attention_bias: bool | None = None
    norm_bias: bool | None = None

    def __post_init__(self) -> None:
        check_choice("norm", self.norm, ("post", "pre"))
        check_choice("feed_forward", self.feed_forward, KINDS)
        check_choice("activation", self.activation, tuple(ACTIVATIONS))
        check_probability("dropout", self.dropout)
        check_probability("inner_dropout", _first(self.inner_dropout, 0.0))
        check_number("norm_eps", self.norm_eps, 1e-30, 1.0, "PyTorch's own is 1e-5")
        check_choice("bias", self.bias, (True, False))
        check_choice("attention_bias", self.attention_bias, (True, False, None))
        check_choice("norm_bias", self.norm_bias, (True, False, None))
        check_heads_divide(self.d_model, self.n_heads)
        check_at_least("d_ff", self.d_ff, 1)

    def attention_options(self) -> dict[str, Any]:
        return {"dropout": _first(self.inner_dropout, self.dropout),
                "bias": _first(self.attention_bias, self.bias)}  # fmt: skip

    def feed_forward_options(self) -> dict[str, Any]:
        return {"dropout": _first(self.inner_dropout, self.dropout), "bias": self.bias,
                "kind": self.feed_forward, "activation": self.activation}  # fmt: skip

    def norm_options(self) -> dict[str, Any]:
        return {"eps": self.norm_eps, "bias": _first(self.norm_bias, self.bias)}


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(LayerConfig):
    """A whole encoder-decoder. Only the vocabularies have no default; the rest is the paper's."""

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
        check_choice("positions", self.positions, ("sinusoidal", "learned"))
        check_choice("tie_embeddings", self.tie_embeddings, (False, True, "output"))
        check_choice("final_norm", self.final_norm, (True, False, None))
        check_choice("scale_embeddings", self.scale_embeddings, (True, False))
        check_choice("output_bias", self.output_bias, (True, False))
        fix = "None stands for Glorot's bound"
        check_number("embedding_std", _first(self.embedding_std, 0.0), 0.0, math.inf, fix)
        for name in ("source_vocab", "target_vocab", "n_layers", "max_len"):
            check_at_least(name, getattr(self, name), 1)
        check_at_least("n_decoder_layers", self.decoder_layers, 1)
        if self.tie_embeddings is True and self.source_vocab != self.target_vocab:
            fix = "share one vocabulary, or tie_embeddings='output' to tie target and output only"
            got = f"{self.source_vocab} and {self.target_vocab}"
            raise invalid("tie_embeddings", "two vocabularies of one size", got, fix)

    @property
    def decoder_layers(self) -> int:
        return _first(self.n_decoder_layers, self.n_layers)

    @property
    def has_final_norm(self) -> bool:
        return _first(self.final_norm, self.norm == "pre")

    @classmethod
    def preset(
        cls, name: str, *, source_vocab: int, target_vocab: int, **changes: Any
    ) -> TransformerConfig:
        """A model known by name (`PRESETS`), with your vocabularies and any changes."""
        check_choice("name", name, tuple(PRESETS))
        options = {**PRESETS[name], **changes}
        return cls(source_vocab=source_vocab, target_vocab=target_vocab, **options)


# The paper's two models (table 3), then one a document (see the book's first page for their names).
PRESETS: dict[str, dict[str, Any]] = {
    "base": {
        "inner_dropout": 0.0,
        "attention_bias": False,
        "tie_embeddings": True,
        "embedding_std": 512**-0.5,
    },
    "big": {
        "d_model": 1024,
        "n_heads": 16,
        "d_ff": 4096,
        "dropout": 0.3,
        "inner_dropout": 0.0,
        "attention_bias": False,
        "tie_embeddings": True,
        "embedding_std": 1024**-0.5,
    },
    "pytorch_walkthrough": {
        "feed_forward": "conv",
        "attention_bias": False,
        "scale_embeddings": False,
        "embedding_std": 1.0,
        "max_len": 1024,
    },
    "source_reading": {"norm": "pre", "output_bias": True},
    "valid_lengths": {
        "d_model": 8,
        "n_heads": 4,
        "d_ff": 16,
        "n_layers": 2,
        "dropout": 0.5,
        "bias": False,
        "norm_bias": True,
        "scale_embeddings": False,
        "max_len": 1000,
        "output_bias": True,
    },
    "paper_notes": {"final_norm": True},
    "numpy_walkthrough": {"d_model": 128, "n_heads": 4, "d_ff": 512, "n_layers": 1},
}

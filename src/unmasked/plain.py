"""The whole Transformer in one file, to be read from top to bottom and written from memory.

No options, no checks, no cache. The norm comes before each sublayer, as in the models that ship.
Shapes: B batch, S source, T target, D width, H heads, d_k = D / H, V vocabulary. A mask is True
where a query may attend to a key. Token 0 is padding, 1 begins a sentence, 2 ends it.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Self

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional as F

MODELS = Path(__file__).parent / "models"
TIED = (("target_embedding", "source_embedding"), ("generator", "target_embedding"))
OURS = {"norm": "pre", "norm_eps": 1e-5, "activation": "relu", "scale_embeddings": True}


def padding_mask(tokens: Tensor) -> Tensor:  # [B, S] → [B, 1, 1, S]
    return (tokens != 0)[:, None, None, :]


def causal_mask(n: int) -> Tensor:  # each word sees itself and what came before: [n, n]
    return torch.ones(n, n, dtype=torch.bool).tril()


def positions(length: int, d_model: int) -> Tensor:
    """Sines in the even columns, cosines in the odd: [length, D]."""
    rates = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:  # all [B, H, T or S, d_k]
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # [B, H, queries, keys]
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return weights @ v


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, y: Tensor, mask: Tensor) -> Tensor:  # each x looks at all of y
        q, k, v = self.split(self.query(x)), self.split(self.key(y)), self.split(self.value(y))
        heads = attention(q, k, v, mask).transpose(1, 2).flatten(2)  # side by side: [B, T, D]
        return self.output(heads)

    def split(self, x: Tensor) -> Tensor:  # [B, T, D] → [B, H, T, d_k]
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.expand(x).relu())


class EncoderLayer(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.attention_norm = nn.LayerNorm(d_model)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.attention_norm(x)
        x = x + self.dropout(self.self_attention(y, y, mask))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class DecoderLayer(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.self_norm = nn.LayerNorm(d_model)
        self.cross_norm = nn.LayerNorm(d_model)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
        y = self.self_norm(x)
        x = x + self.dropout(self.self_attention(y, y, mask))
        x = x + self.dropout(self.cross_attention(self.cross_norm(x), memory, memory_mask))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class Transformer(nn.Module):
    def __init__(
        self, source_vocab: int, target_vocab: int, d_model: int = 512, n_heads: int = 8,
        n_layers: int = 6, d_ff: int = 2048, dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = (d_model, n_heads, d_ff, dropout)
        self.source_embedding = nn.Embedding(source_vocab, d_model)
        self.target_embedding = nn.Embedding(target_vocab, d_model)
        self.encoder = nn.ModuleList(EncoderLayer(*sizes) for _ in range(n_layers))
        self.decoder = nn.ModuleList(DecoderLayer(*sizes) for _ in range(n_layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.generator = nn.Linear(d_model, target_vocab, bias=False)
        self.dropout = nn.Dropout(dropout)
        for table in (self.source_embedding, self.target_embedding):
            nn.init.normal_(table.weight, std=d_model**-0.5)  # `embed` multiplies by √D

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:  # [B, T] → [B, T, D]
        x = embedding(tokens) * math.sqrt(embedding.embedding_dim)
        return self.dropout(x + positions(tokens.shape[1], embedding.embedding_dim).to(x))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:  # [B, S], [B, T] → [B, T, V]
        real, so_far = padding_mask(source), causal_mask(target.shape[1]).to(target.device)
        memory = self.embed(self.source_embedding, source)
        for layer in self.encoder:
            memory = layer(memory, real)
        memory = self.encoder_norm(memory)

        x = self.embed(self.target_embedding, target)
        for layer in self.decoder:
            x = layer(x, memory, so_far & padding_mask(target), real)
        return self.generator(self.decoder_norm(x))

    @classmethod
    def from_pretrained(cls, name: str) -> Self:
        """Loads the weights of a shipped model, `from_pretrained("de-en")`, or of a file."""
        path = Path(name) if name.endswith(".safetensors") else MODELS / f"{name}.safetensors"
        with safe_open(path, "pt") as file:
            c = json.loads(file.metadata()["unmasked"])["model"]
            weights = {renamed(key): file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        for key, value in OURS.items():
            if c[key] != value:
                raise ValueError(f"{path}: {key}={c[key]!r} is not ours; use unmasked.load")
        sizes = ("source_vocab", "target_vocab", "d_model", "n_heads", "n_layers", "d_ff")
        model = cls(*(c[size] for size in sizes))
        for part, other in TIED:
            if f"{part}.weight" not in weights:  # one table under several names
                weights[f"{part}.weight"] = weights[f"{other}.weight"]
                model.get_submodule(part).weight = model.get_submodule(other).weight
        model.load_state_dict(weights)
        return model.eval()


@torch.no_grad()
def generate(model: nn.Module, source: Tensor, n: int) -> Tensor:  # [B, S] → [B, T], T ≤ n
    """The likeliest token at each step; after its end a sentence is filled with padding."""
    target = torch.ones(len(source), 1, dtype=torch.long, device=source.device)
    ended = torch.zeros_like(target, dtype=torch.bool)
    while target.shape[1] <= n and not ended.all():
        logits = model(source, target)[:, -1]
        token = logits[:, 1:].argmax(-1, keepdim=True) + 1  # anything but padding
        target = torch.cat([target, token.masked_fill(ended, 0)], dim=1)
        ended = ended | (token == 2)
    return target[:, 1:]


def loss(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    """The mean cross-entropy of each next token, padding left out."""
    logits = model(source, target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)


def renamed(key: str) -> str:
    """A parameter of the package, by the name that it has here."""
    key = key.replace("_embedding.tokens", "_embedding").replace("_residual.norm", "_norm")
    return key.replace("coder.layers", "coder").replace("coder.norm", "coder_norm")

"""Defines OPT, GPT-2, BERT, Marian, BART and Llama as changes of `unmasked/plain.py`.

In evaluation, with the same weights and position ids, each computes what the class of Hugging
Face's `transformers` computes (`benchmarks/family.py`). Padding is token 0 here, whichever token
it is in a checkpoint.
"""

import ast
import inspect
import math
import re
import textwrap
from collections.abc import Callable
from difflib import ndiff
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unmasked.plain import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    Transformer,
    attention,
    causal_mask,
    padding_mask,
    positions,
)  # fmt: skip


class GPT(Transformer):
    """GPT is plain.py without its encoder; the layers are an encoder's, under a causal mask."""

    layer: type[nn.Module] = EncoderLayer
    feed_forward: type[nn.Module] = FeedForward

    def __init__(
        self, vocab: int, d_model: int, n_heads: int, n_layers: int, d_ff: int, dropout: float = 0.1
    ) -> None:
        nn.Module.__init__(self)
        sizes = (d_model, n_heads, d_ff, dropout)
        self.target_embedding = nn.Embedding(vocab, d_model)
        self.decoder = nn.ModuleList(self.layer(*sizes) for _ in range(n_layers))
        for layer in self.decoder:
            layer.feed_forward = self.feed_forward(d_model, d_ff)
        self.decoder_norm = nn.LayerNorm(d_model)
        self.generator = nn.Linear(d_model, vocab, bias=False)
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.target_embedding.weight, std=d_model**-0.5)

    def mask(self, target: Tensor) -> Tensor:  # padding on the left sees itself, not nothing
        so_far = causal_mask(target.shape[1]).to(target.device)
        return so_far & padding_mask(target) | torch.eye(len(so_far)).to(so_far)

    def forward(self, target: Tensor) -> Tensor:  # type: ignore[override]
        mask = self.mask(target)
        x = self.embed(self.target_embedding, target)
        for layer in self.decoder:
            x = layer(x, mask)
        return self.generator(self.decoder_norm(x))


def step(model: Any, tokens: Tensor, seen: int, cache: Any) -> tuple[Tensor, list[Tensor]]:
    """Runs the tokens after the first `seen`; a cache holds what each layer has been given."""
    mask = model.mask(tokens)
    x, kept = model.embed(model.target_embedding, tokens)[:, seen:], []
    for layer, past in zip(model.decoder, cache or [x[:, :0]] * len(model.decoder), strict=True):
        kept.append(torch.cat([past, x], dim=1))
        x = layer(kept[-1], mask)[:, seen:]
    return model.generator(model.decoder_norm(x)), kept


class OPT(GPT):
    skipped, length = 2, 2048  # rows of the table that no real token reads, and all others

    def __init__(self, vocab: int, d_model: int, *sizes: Any) -> None:
        super().__init__(vocab, d_model, *sizes)
        self.positions = nn.Embedding(self.skipped + self.length, d_model)
        self.generator.weight = self.target_embedding.weight
        for table in (self.target_embedding, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        places = ((tokens != 0).cumsum(1) - 1).clamp(min=0)
        return self.dropout(embedding(tokens) + self.positions(places + self.skipped))


class TanhGELU(FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return self.contract(F.gelu(self.expand(x), approximate="tanh"))


class GPT2(OPT):
    skipped, length = 0, 1024
    feed_forward = TanhGELU


class GELU(FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return self.contract(F.gelu(self.expand(x)))


class PostNormEncoderLayer(EncoderLayer):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention_norm(x + self.dropout(self.self_attention(x, x, mask)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class BERT(OPT):
    skipped, length = 0, 512
    layer, feed_forward = PostNormEncoderLayer, GELU

    def __init__(self, vocab: int, d_model: int, *sizes: Any) -> None:
        super().__init__(vocab, d_model, *sizes)
        self.texts, self.embedding_norm = nn.Embedding(2, d_model), nn.LayerNorm(d_model)
        head = nn.Linear(d_model, d_model), nn.GELU(), nn.LayerNorm(d_model)
        self.decoder_norm = nn.Sequential(*head)  # type: ignore[assignment]
        self.generator.bias = nn.Parameter(torch.zeros(vocab))
        for norm in (each for each in self.modules() if isinstance(each, nn.LayerNorm)):
            norm.eps = 1e-12

    def mask(self, target: Tensor) -> Tensor:
        return padding_mask(target)

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        x = embedding(tokens) + self.positions(torch.arange(tokens.shape[1]).to(tokens))
        ends = (tokens == 2).long()
        ends_before = ends.cumsum(1) - ends
        return self.dropout(self.embedding_norm(x + self.texts(ends_before.clamp(max=1))))


class PostNormDecoderLayer(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
        x = self.self_norm(x + self.dropout(self.self_attention(x, x, mask)))
        x = self.cross_norm(x + self.dropout(self.cross_attention(x, memory, memory_mask)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class SiLU(FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return self.contract(F.silu(self.expand(x)))


class Marian(Transformer):
    feed_forward: type[nn.Module] = SiLU

    def __init__(
        self, vocab: int, d_model: int, n_heads: int, n_layers: int, d_ff: int, dropout: float = 0.1
    ) -> None:
        super().__init__(vocab, vocab, d_model, n_heads, n_layers, d_ff, dropout)
        sizes = (d_model, n_heads, d_ff, dropout)
        self.encoder = nn.ModuleList(PostNormEncoderLayer(*sizes) for _ in range(n_layers))
        self.decoder = nn.ModuleList(PostNormDecoderLayer(*sizes) for _ in range(n_layers))
        for layer in (*self.encoder, *self.decoder):
            layer.feed_forward = self.feed_forward(d_model, d_ff)
        del self.encoder_norm, self.decoder_norm
        self.target_embedding.weight = self.generator.weight = self.source_embedding.weight
        self.register_buffer("bias", torch.zeros(vocab))

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        x = embedding(tokens) * math.sqrt(embedding.embedding_dim)
        table = positions(tokens.shape[1], embedding.embedding_dim).to(x)
        return self.dropout(x + torch.cat([table[:, ::2], table[:, 1::2]], dim=1))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        real, so_far = padding_mask(source), causal_mask(target.shape[1]).to(target.device)
        memory = self.embed(self.source_embedding, source)
        for layer in self.encoder:
            memory = layer(memory, real)

        x = self.embed(self.target_embedding, target)
        for layer in self.decoder:
            x = layer(x, memory, so_far, real)  # a target begins with padding
        return self.generator(x) + self.bias


class BART(Marian):
    feed_forward = GELU

    def __init__(self, vocab: int, d_model: int, *sizes: Any) -> None:
        super().__init__(vocab, d_model, *sizes)
        self.positions = nn.ModuleList(nn.Embedding(2 + 1024, d_model) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        side = int(embedding is self.target_embedding)
        rows = self.positions[side](torch.arange(2, tokens.shape[1] + 2).to(tokens))
        return self.dropout(self.norms[side](embedding(tokens) + rows))


class RMSNorm(nn.LayerNorm):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model, eps=1e-6, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt()


class SwiGLU(FeedForward):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__(d_model, d_ff)
        self.gate = nn.Linear(d_model, d_ff)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(F.silu(self.gate(x)) * self.expand(x))


def turned(x: Tensor) -> Tensor:
    """Turns columns i and i + d_k/2 of [B, H, T, d_k] together, by position (RoPE)."""
    rates = 10000.0 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = (torch.arange(x.shape[-2])[:, None] * rates).to(x)
    (a, b), sin, cos = x.chunk(2, dim=-1), angles.sin(), angles.cos()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class RotaryAttention(MultiHeadAttention):
    turn: Callable[[Tensor], Tensor] = staticmethod(turned)

    def __init__(self, d_model: int, n_heads: int, n_groups: int) -> None:
        super().__init__(d_model, n_heads)
        self.width = d_model // n_heads
        self.key = nn.Linear(d_model, n_groups * self.width)
        self.value = nn.Linear(d_model, n_groups * self.width)

    def forward(self, x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.split(self.query(x)), self.split(self.key(y)), self.split(self.value(y))
        k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for each in (k, v))
        heads = attention(self.turn(q), self.turn(k), v, mask).transpose(1, 2).flatten(2)
        return self.output(heads)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.width)).transpose(1, 2)


class Llama(GPT):
    feed_forward = SwiGLU

    def __init__(self, vocab: int, d_model: int, n_heads: int, *sizes: Any, n_groups: int) -> None:
        super().__init__(vocab, d_model, n_heads, *sizes)
        for layer in self.decoder:
            layer.self_attention = RotaryAttention(d_model, n_heads, n_groups)
            layer.attention_norm, layer.feed_forward_norm = RMSNorm(d_model), RMSNorm(d_model)
        self.decoder_norm = RMSNorm(d_model)
        for linear in (each for each in self.modules() if isinstance(each, nn.Linear)):
            linear.register_parameter("bias", None)

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        return embedding(tokens)


class Diff:
    """A Diff holds a diff as text; a page of the book and a notebook show it in green and red."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_markdown_(self) -> str:
        return f"```diff\n{self.text}\n```"

    def __repr__(self) -> str:
        return self.text


def changes(*things: Any) -> Diff:
    """Returns a Diff of classes' sources against their base classes'; functions are all new."""
    lines = []
    for child in things:
        if inspect.isfunction(child):  # all of it is new
            lines += [*(f"+ {line}" for line in inspect.getsource(child).splitlines()), ""]
            continue
        theirs: dict[str, list[str]] = {}
        for each in reversed(child.__mro__[1:]):
            theirs |= parts(each) if each.__module__.startswith("unmasked") else {}
        lines += [f"  class {child.__name__}({child.__mro__[1].__name__}):"]
        for name, ours in parts(child).items():  # what `super` calls is not repeated
            before = [] if f"super().{name}" in "".join(ours) else theirs.get(name, [])
            lines += [line.rstrip() for line in ndiff(before, ours) if line[0] != "?"]
        lines += [""]
    return Diff("\n".join(lines[:-1]))


def parts(thing: type) -> dict[str, list[str]]:
    """Returns the source lines of a class's methods and attributes, by name, without comments."""
    source = re.sub(r"  # .*", "", inspect.getsource(thing))
    [node], found = ast.parse(source).body, {}
    for each in getattr(node, "body", []):
        lines = source.splitlines()[each.lineno - 1 : each.end_lineno]
        if isinstance(each, ast.FunctionDef):
            for argument in (every for every in ast.walk(each) if isinstance(every, ast.arg)):
                argument.annotation = None
            body = filter(None, lines[each.body[0].lineno - each.lineno :])
            head = f"    def {each.name}({ast.unparse(each.args)}):"
            found[each.name] = [*textwrap.wrap(head, 84, subsequent_indent=" " * 8), *body]
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            found[lines[0].split()[0].rstrip(":")] = [re.sub(r": .* =", " =", lines[0])]
    return found

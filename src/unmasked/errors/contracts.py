"""What the functions of the model, its loss and its searches may be called with.

A rule names the arguments that it looks at as the function does (`errors.checked`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..config import ACTIVATIONS, FEED_FORWARDS, PADDING, LayerConfig, TransformerConfig
from ..inspection.maps import AttentionMaps
from . import (
    check_at_least,
    check_boolean,
    check_choice,
    check_heads_divide,
    check_mask,
    check_number,
    check_probability,
    check_seed,
    check_tokens,
    check_type,
    check_vectors,
    invalid,
    shape,
)

if TYPE_CHECKING:
    from ..attention import KeyValueCache
    from ..decoder import DecoderState
    from ..transformer import Transformer

# --- Masks ------------------------------------------------------------------------------------


def padding_mask(tokens: Tensor) -> None:
    check_tokens("tokens", tokens)


def causal_mask(n: int, past: int) -> None:
    check_at_least("n", n, 1)
    check_at_least("past", past, 0)


def length_mask(lengths: Tensor, n: int) -> None:
    check_at_least("n", n, 1)
    check_type("lengths", lengths, Tensor)
    if lengths.dim() not in (1, 2):
        fix = "give one length a row, or one a query"
        raise invalid("lengths", "rank 1, [batch], or 2, [batch, queries]", shape(lengths), fix)
    if lengths.dtype.is_floating_point or lengths.dtype == torch.bool:
        fix = "lengths count tokens: convert with .long()"
        raise invalid("lengths", "whole numbers", lengths.dtype, fix)
    if lengths.device.type == "cpu" and bool(((lengths < 0) | (lengths > n)).any()):
        got = f"{int(lengths.min())} to {int(lengths.max())}"
        raise invalid("lengths", f"lengths from 0 to {n}", got, "n is the length with padding")


def from_blocked(blocked: Tensor) -> None:
    check_type("blocked", blocked, Tensor)
    if blocked.dtype != torch.bool:
        raise invalid("blocked", "a boolean tensor", blocked.dtype, "convert it: blocked != 0")


def from_ones(ones: Tensor) -> None:
    check_type("ones", ones, Tensor)


def from_additive(additive: Tensor) -> None:
    check_type("additive", additive, Tensor)
    if not additive.dtype.is_floating_point:
        fix = "an additive mask holds 0 and minus infinity; for ones and zeros use from_ones"
        raise invalid("additive", "a floating-point tensor", additive.dtype, fix)


def to_additive(mask: Tensor) -> None:
    check_boolean("mask", mask)


# --- Positions --------------------------------------------------------------------------------


def frequencies(d_model: int) -> None:
    check_at_least("d_model", d_model, 1)


def sinusoids(d_model: int) -> None:
    check_at_least("d_model", d_model, 1)


def shift_matrix(d_model: int) -> None:
    check_at_least("d_model", d_model, 1)
    if d_model % 2:
        fix = "the last sine of an odd width has no cosine to be turned with"
        raise invalid("d_model", "an even width", d_model, fix)


def make_positions(d_model: int, max_len: int) -> None:
    check_at_least("d_model", d_model, 1)
    check_at_least("max_len", max_len, 1)


def learned_rows(self: Any, length: int, start: int) -> None:
    check_positions(start + length, len(self.table))


def learned_positions(self: Any, x: Tensor, start: int) -> None:
    check_positions(start + x.shape[1], len(self.table))


def check_positions(length: int, max_len: int) -> None:
    if length > max_len:
        fix = "raise max_len and train again, or use positions='sinusoidal'"
        expected = f"positions below max_len={max_len}"
        raise invalid("positions", expected, f"position {length - 1}", fix)


# --- Attention --------------------------------------------------------------------------------


def masked_softmax(scores: Tensor, mask: Tensor | None) -> None:
    if mask is not None:
        check_mask("mask", mask, scores.shape)


def attention_weights(query: Tensor, key: Tensor, mask: Tensor | None) -> None:
    attention(query, key, key, mask)


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float = 0.0
) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        check_type(name, x, Tensor)
        if x.dim() < 2:
            raise invalid(name, "rank 2 or more, [..., length, width]", shape(x), "add a dimension")
    if query.shape[-1] != key.shape[-1]:
        fix = "their dot product needs one width"
        raise invalid("key", f"the query's width {query.shape[-1]}", key.shape[-1], fix)
    if key.shape[-2] != value.shape[-2]:
        fix = "each key has one value"
        raise invalid("value", f"as many values as keys, {key.shape[-2]}", value.shape[-2], fix)
    check_probability("dropout", dropout)
    if mask is not None:
        batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
        check_mask("mask", mask, (*batch, query.shape[-2], key.shape[-2]))


def additive_attention(
    query: Tensor, key: Tensor, value: Tensor, vector: Tensor, mask: Tensor | None
) -> None:
    attention(query, key, value, mask)
    if vector.shape != query.shape[-1:]:
        fix = "it weighs the columns of query + key"
        raise invalid("vector", f"shape [{query.shape[-1]}]", shape(vector), fix)


def make_multi_head(d_model: int, n_heads: int, dropout: float) -> None:
    check_heads_divide(d_model, n_heads)
    check_probability("dropout", dropout)


def multi_head(
    self: Any,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    mask: Tensor | None,
    cache: KeyValueCache | None,
) -> None:
    check_vectors("query", query, self.d_model)
    batch, queries, _ = query.shape
    check_cache(cache, batch)
    keys, past = query if key is None else key, 0 if cache is None else cache.length
    if cache is not None and cache.filled:
        keys, past = cache.read()[0][:, 0], 0
    else:
        check_vectors("key", keys, self.d_model, batch)
        check_vectors("value", keys if value is None else value, self.d_model, batch)
    if mask is not None:
        check_mask("mask", mask, (batch, self.n_heads, queries, past + keys.shape[1]))


def check_cache(cache: KeyValueCache | None, batch: int) -> None:
    if cache is not None and cache.length and len(cache.keys) != batch:
        fix = "begin with a new one for other sentences"
        raise invalid("cache", f"a batch of {batch}", len(cache.keys), fix)


def make_cache(capacity: int) -> None:
    check_at_least("capacity", capacity, 1)


def read_cache(self: KeyValueCache) -> None:
    if self.length == 0:
        raise invalid("cache", "keys and values to read", "an empty cache", "append some first")


def append_to_cache(self: KeyValueCache, keys: Tensor) -> None:
    if self.length and self.read()[0].shape[:2] != keys.shape[:2]:
        expected = f"[batch, heads] = {list(self.read()[0].shape[:2])} as in the cache"
        fix = "begin a new cache for other sentences"
        raise invalid("keys", expected, list(keys.shape[:2]), fix)


# --- Layers -----------------------------------------------------------------------------------


def make_feed_forward(d_model: int, d_ff: int, dropout: float, kind: str, activation: str) -> None:
    check_at_least("d_model", d_model, 1)
    check_at_least("d_ff", d_ff, 1)
    check_probability("dropout", dropout)
    check_choice("kind", kind, FEED_FORWARDS)
    check_choice("activation", activation, ACTIVATIONS)


def feed_forward(self: Any, x: Tensor) -> None:
    check_vectors("x", x, self.d_model)


def make_layer(config: LayerConfig) -> None:
    check_type("config", config, LayerConfig)


def encoder(self: Any, x: Tensor, mask: Tensor | None, maps: list[Tensor] | None) -> None:
    config: LayerConfig = self.config
    check_vectors("x", x, config.d_model)
    if mask is not None:
        batch, length, _ = x.shape
        check_mask("mask", mask, (batch, config.n_heads, length, length))
    if maps is not None:
        check_type("maps", maps, list)


def decoder(
    self: Any,
    x: Tensor,
    memory: Tensor,
    mask: Tensor | None,
    memory_mask: Tensor | None,
    state: DecoderState | None,
    maps: AttentionMaps | None,
) -> None:
    config: LayerConfig = self.config
    check_vectors("x", x, config.d_model)
    check_vectors("memory", memory, config.d_model, len(x))
    check_state(state, len(self.layers), len(x), memory.shape[1])
    check_maps(maps)
    batch, length, _ = x.shape
    layers = [] if state is None else state.layers  # they know their past, extended or not
    past = max((layer.past.length for layer in layers), default=0)
    if mask is not None:
        check_mask("mask", mask, (batch, config.n_heads, length, past + length))
    if memory_mask is not None:
        check_mask("memory_mask", memory_mask, (batch, config.n_heads, length, memory.shape[1]))


# --- The whole model --------------------------------------------------------------------------


def make_transformer(config: TransformerConfig) -> None:
    check_type("config", config, TransformerConfig)


def transformer(
    self: Any,
    source: Tensor,
    target: Tensor,
    source_mask: Tensor | None,
    target_mask: Tensor | None,
    maps: AttentionMaps | None,
) -> None:
    encode(self, source, source_mask, maps)
    check_target(self, target, tuple(source.shape), source_mask, target_mask)


def encode(
    self: Any, source: Tensor, source_mask: Tensor | None, maps: AttentionMaps | None
) -> None:
    config: TransformerConfig = self.config
    check_maps(maps)
    check_tokens("source", source, config.source_vocab)
    batch, length = source.shape
    if source_mask is not None:
        check_mask("source_mask", source_mask, (batch, config.n_heads, length, length))
    check_room(self.source_embedding, length)


def decode(
    self: Any,
    target: Tensor,
    memory: Tensor,
    source_mask: Tensor | None,
    target_mask: Tensor | None,
    state: DecoderState | None,
    maps: AttentionMaps | None,
) -> None:
    check_vectors("memory", memory, self.config.d_model)
    if source_mask is None:
        fix = "pass padding_mask(source): a memory does not know its padding"
        raise invalid("source_mask", "a boolean tensor", None, fix)
    read = len(memory), memory.shape[1]
    start = 0 if state is None else state.length
    check_target(self, target, read, source_mask, target_mask, start)
    check_state(state, len(self.decoder.layers), len(target), memory.shape[1])
    check_maps(maps)


def check_target(
    model: Any,
    target: Tensor,
    source: tuple[int, ...],
    source_mask: Tensor | None,
    target_mask: Tensor | None,
    start: int = 0,
) -> None:
    """A target [B, T] behind `start` tokens, for a source of the shape [B, S]."""
    config: TransformerConfig = model.config
    check_tokens("target", target, config.target_vocab)
    batch, length = target.shape
    if batch != source[0]:
        fix = "give each source sentence one target"
        raise invalid("target", f"a batch of {source[0]}", batch, fix)
    if source_mask is not None:
        check_mask("source_mask", source_mask, (batch, config.n_heads, length, source[1]))
    if target_mask is not None:
        check_mask("target_mask", target_mask, (batch, config.n_heads, length, start + length))
    check_room(model.target_embedding, start + length)


def check_room(embedding: Any, length: int) -> None:
    """That learned positions reach so far."""
    if isinstance(table := getattr(embedding.positions, "table", None), nn.Parameter):
        check_positions(length, len(table))


def check_maps(maps: AttentionMaps | None) -> None:
    if maps is not None:
        check_type("maps", maps, AttentionMaps)


def check_state(state: DecoderState | None, layers: int, batch: int, memory: int) -> None:
    """That it is of this decoder and of these sentences, with a memory of so many positions."""
    if state is None:
        return
    if len(state.layers) != layers:
        fix = "begin with this model's start()"
        raise invalid("state", f"{layers} layers", len(state.layers), fix)
    fix = "begin with a new state for other sentences"
    if state.real is not None and len(state.real) != batch:
        raise invalid("state", f"a batch of {batch}", len(state.real), fix)
    for layer in state.layers:
        check_cache(layer.past, batch)
        check_cache(layer.memory, batch)
        if layer.memory.length and layer.memory.length != memory:
            expected = f"a memory of {memory} positions"
            raise invalid("state", expected, f"one of {layer.memory.length}", fix)


# --- The loss ---------------------------------------------------------------------------------


def translation_loss(model: Transformer, source: Tensor, target: Tensor, smoothing: float) -> None:
    from ..transformer import Transformer  # which is made of what is above

    check_type("model", model, Transformer)
    check_probability("smoothing", smoothing)
    check_tokens("source", source, model.config.source_vocab)
    check_tokens("target", target, model.config.target_vocab)
    if len(source) != len(target):
        fix = "give each source sentence one target"
        raise invalid("target", f"a batch of {len(source)}", len(target), fix)
    check_room(model.source_embedding, source.shape[1])
    check_room(model.target_embedding, target.shape[1] - 1)


# --- Searches ---------------------------------------------------------------------------------


def search(
    model: Transformer, source: Tensor, max_new_tokens: int | None, bos: int, eos: int
) -> None:
    from ..transformer import Transformer  # which is made of what is above

    check_type("model", model, Transformer)
    config = model.config
    check_tokens("source", source, config.source_vocab)
    check_room(model.source_embedding, source.shape[1])
    for name, token in (("bos", bos), ("eos", eos)):
        check_at_least(name, token, 0)
        if token >= config.target_vocab or token == PADDING:
            expected = f"a token of the target vocabulary, 1 to {config.target_vocab - 1}"
            raise invalid(name, expected, token, f"{PADDING} is padding and hidden from attention")
    if max_new_tokens is not None:
        check_at_least("max_new_tokens", max_new_tokens, 1)
        if config.positions == "learned" and max_new_tokens > config.max_len:
            fix = "there are no learned positions beyond it"
            expected = f"at most max_len={config.max_len}"
            raise invalid("max_new_tokens", expected, max_new_tokens, fix)


def beam(
    model: Transformer,
    source: Tensor,
    max_new_tokens: int | None,
    bos: int,
    eos: int,
    beam_size: int,
    n_best: int,
    length_penalty: float,
) -> None:
    search(model, source, max_new_tokens, bos, eos)
    check_at_least("beam_size", beam_size, 1)
    check_at_least("n_best", n_best, 1)
    if beam_size > model.config.target_vocab:
        expected = f"at most the target vocabulary's {model.config.target_vocab}"
        raise invalid("beam_size", expected, beam_size, "use a smaller beam")
    if n_best > beam_size:
        fix = "a wider beam finds more hypotheses"
        raise invalid("n_best", f"at most beam_size={beam_size}", n_best, fix)
    fix = "0 compares plain log-probabilities, more favours longer sentences"
    check_number("length_penalty", length_penalty, 0.0, 10.0, fix)


def sample(
    model: Transformer,
    source: Tensor,
    max_new_tokens: int | None,
    bos: int,
    eos: int,
    temperature: float,
    top_k: int | None,
    top_p: float,
    seed: object,
) -> None:
    search(model, source, max_new_tokens, bos, eos)
    fix = "as it nears 0, sampling becomes greedy search: call `greedy` for that"
    check_number("temperature", temperature, 1e-3, 1e3, fix)
    if top_k is not None:
        check_at_least("top_k", top_k, 1)
    check_number("top_p", top_p, 1e-9, 1.0, "it is a probability; 1 leaves out nothing")
    if seed is not None and not isinstance(seed, torch.Generator):
        check_seed(seed)

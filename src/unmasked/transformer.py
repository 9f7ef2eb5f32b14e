"""Maps a source and a target sequence of tokens to logits for each target position."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from . import masks
from .attention import AttentionMaps
from .config import TransformerConfig
from .decoder import Decoder
from .encoder import Encoder
from .errors import invalid, require_mask, require_tokens, require_type, require_vectors, shape
from .kernels import Dropout
from .layers import Linear
from .looks import DecoderState, Layout, Packed
from .positions import LearnedPositions, SinusoidalPositions


class Embedding(nn.Module):
    """This module maps tokens [B, T] to vectors [B, T, D], scaled by √D or not, plus positions."""

    def __init__(self, config: TransformerConfig, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, config.d_model)
        kinds = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions}
        self.positions = kinds[config.positions](config.d_model, config.max_len)
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.dropout = Dropout(config.dropout)

    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:  # [B, T] → [B, T, D]
        return self.dropout(self.positions(self.tokens(tokens) * self.scale, start))


class Transformer(nn.Module):
    """This model is the encoder-decoder of *Attention Is All You Need*, or a configured variant.

    Padding is token 0: masks that are not given are made from the tokens. A call with
    `need_weights=True` returns (logits, maps): every layer's attention weights.
    """

    def __init__(self, config: TransformerConfig) -> None:
        require_type("config", config, TransformerConfig)
        super().__init__()
        self.config = config
        self.source_embedding = Embedding(config, config.source_vocab)
        self.target_embedding = Embedding(config, config.target_vocab)
        self.encoder = Encoder(config, config.n_layers, config.has_final_norm)
        self.decoder = Decoder(config, config.decoder_layers, config.has_final_norm)
        self.generator = Linear(config.d_model, config.target_vocab, bias=config.output_bias)
        self.tie()
        self.initialise()
        self.register_load_state_dict_post_hook(Transformer.tie)  # assign=True makes new parameters

    def __call__(self, *args: Any, need_weights: bool = False, **options: Any) -> Any:
        if not need_weights:
            return super().__call__(*args, **options)
        maps = AttentionMaps.empty()
        return super().__call__(*args, maps=maps, **options), maps

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        maps: AttentionMaps | None = None,
    ) -> Tensor:
        """Computes the logits of each next token: [B, S], [B, T] → [B, T, V]."""
        require_tokens("source", source)
        source_mask = masks.padding_mask(source) if source_mask is None else source_mask
        if isinstance(source_mask, Tensor) and [1, *source_mask.shape][-2] != 1:
            fix = "a mask with a row for each query is one side's: call encode and decode"
            raise invalid("source_mask", "one row of keys a sentence", shape(source_mask), fix)
        memory = self.encode(source, source_mask=source_mask, maps=maps)
        x = self.decode(target, memory, source_mask=source_mask, target_mask=target_mask, maps=maps)
        return self.generator(x)

    def encode(
        self,
        source: Tensor,
        *,
        source_mask: Tensor | None = None,
        maps: AttentionMaps | None = None,
        only: Tensor | None = None,
    ) -> Tensor:
        """Computes the encoder's output, the memory: [B, S] → [B, S, D].

        Where `only` [B, S] is False, the memory is zero and not computed; the mask must hide it.
        """
        require_type("maps", maps, AttentionMaps, type(None))
        require_tokens("source", source, self.config.source_vocab)
        batch, length = source.shape
        require_mask("source_mask", source_mask, (batch, self.config.n_heads, length, length))
        mask = masks.padding_mask(source) if source_mask is None else source_mask
        x = self.source_embedding(source)
        if only is None:
            return self.encoder(x, mask=mask, maps=maps and maps.encoder)
        layout = Layout(only)
        return layout.unpack(self.encoder(layout.pack(x), mask=Packed(layout, layout, mask)))

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        *,
        source_mask: Tensor,
        target_mask: Tensor | None = None,
        state: DecoderState | None = None,
        maps: AttentionMaps | None = None,
        only: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Computes the decoder's output, the generator's input: [B, T], [B, S, D] → [B, T, D].

        The default `target_mask` is causal and hides padding. With a `state` (from `start`, one for
        each memory) the target has only new tokens. Where `only`, [B, T], [B, S], is False: zeros.
        """
        start = 0 if state is None else state.length
        if state is None or not state.generated:
            self.require_decode(target, memory, source_mask, target_mask, state)
            require_type("maps", maps, AttentionMaps, type(None))
        x = self.target_embedding(target, start)
        if state is not None:
            looks = state.next(target, target_mask, source_mask, maps)
            x = self.decoder(x.flatten(0, 3 - state.rank), memory, looks=looks)
            state.length += target.shape[1]
            return x
        if target_mask is None:
            so_far = masks.causal_mask(target.shape[1], device=target.device)
            target_mask = masks.padding_mask(target) & so_far
        if only is None:
            return self.decoder(x, memory, mask=target_mask, memory_mask=source_mask, maps=maps)
        own, read = (Layout(each) for each in only)
        pair = Packed(own, own, target_mask), Packed(own, read, source_mask)
        packed = [pair] * len(self.decoder.layers)
        return own.unpack(self.decoder(own.pack(x), read.pack(memory), looks=packed))

    def check_options(self) -> dict[str, Any]:
        """Returns what `unmasked.check` takes from it: vocabularies, tied weights and a step."""
        shared, source = "target_embedding.tokens.weight", "source_embedding.tokens.weight"
        ties = self.config.tie_embeddings
        tied = [(shared, "generator.weight")] * bool(ties) + [(shared, source)] * (ties is True)
        sizes = {name: getattr(self.config, name) for name in ("source_vocab", "target_vocab")}
        return {**sizes, "tied": tied, "step": stepwise}

    def start(self, capacity: int = 32, width: int = 1) -> DecoderState:
        """Returns an empty cache for `decode`; its room for `capacity` tokens grows if need be."""
        return DecoderState(len(self.decoder.layers), capacity, width)

    def require_decode(
        self,
        target: Tensor,
        memory: Tensor,
        source_mask: Tensor,
        target_mask: Tensor | None,
        state: DecoderState | None,
    ) -> None:
        require_vectors("memory", memory, self.config.d_model)
        if source_mask is None:
            fix = "pass padding_mask(source): a memory does not know its padding"
            raise invalid("source_mask", "a boolean tensor", None, fix)
        require_tokens("target", target, self.config.target_vocab)
        batch, length = target.shape
        width, start = (1, 0) if state is None else (state.width, state.length)
        if state is not None:
            state.require(len(self.decoder.layers), memory)
        if batch != len(memory) * width:
            fix = "give each source sentence one target"
            raise invalid("target", f"a batch of {len(memory) * width}", batch, fix)
        queries = len(memory), self.config.n_heads, length
        require_mask("source_mask", source_mask, (*queries, memory.shape[1]))
        require_mask("target_mask", target_mask, (*queries, start + length))

    # --- Weights --------------------------------------------------------------------------------

    def initialise(self) -> None:
        """Draws every matrix from Glorot's uniform distribution, embeddings as configured."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        if self.config.embedding_std is not None:
            for embedding in (self.source_embedding, self.target_embedding):
                nn.init.normal_(embedding.tokens.weight, std=self.config.embedding_std)

    def tie(self, _: object = None) -> None:
        """Makes one parameter of the embedding and output weights that are configured as tied."""
        if self.config.tie_embeddings:
            self.generator.weight = self.target_embedding.tokens.weight
        if self.config.tie_embeddings is True:
            self.source_embedding.tokens.weight = self.target_embedding.tokens.weight

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self.tie()  # some conversions, to_empty among them, make new parameters
        return self

    def count_parameters(self) -> int:
        """Returns the count of numbers in all parameters; tied ones count once."""
        return sum(parameter.numel() for parameter in self.parameters())


def stepwise(model: Transformer, source: Tensor, target: Tensor) -> Tensor:
    """Computes the model's logits [B, T, V] token by token, with a cache."""
    mask, memory, state = masks.padding_mask(source), model.encode(source), model.start()
    hidden = [
        model.decode(token[:, None], memory, source_mask=mask, state=state)
        for token in target.unbind(1)
    ]
    return model.generator(torch.cat(hidden, 1))


def require_called(model: Transformer) -> None:
    """Raises ValueError if the model has its own forward or hooks, which searches do not call."""
    require_type("model", model, Transformer)
    own = type(model).forward is not Transformer.forward or "forward" in vars(model)
    if own or model._forward_hooks or model._forward_pre_hooks:
        got = "a forward of its own" if own else "a hook on the whole of it"
        fix = "put it there: loss and searches call these three"
        raise invalid("model", "changes in encode, decode or generator", got, fix)


class Undrawn(TorchFunctionMode):
    """Makes `torch.nn.init` do nothing: on the meta device it would load PyTorch's compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        drawing = getattr(func, "__module__", "") == "torch.nn.init"
        return None if drawing else func(*args, **(kwargs or {}))


def without_numbers(config: TransformerConfig) -> Transformer:
    """Returns a model on the meta device, whose weights have shapes but no numbers."""
    with Undrawn(), torch.device("meta"):
        return Transformer(config)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Turns a model's dropout and gradients off in a block; if it trains, in one thread only."""
    training = [module for module in model.modules() if module.training]
    try:
        if training:
            model.eval()
        with torch.inference_mode():
            yield
    finally:
        for module in training:
            module.training = True

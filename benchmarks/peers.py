"""The same model three times: ours, torch.nn and MarianMT, with one interface.

All have the same widths, depths, heads, vocabulary and dropout, untied embeddings and random
weights. The row of the end token is zero in every output matrix, so that nobody stops early.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from timing import Run
from unmasked import Transformer, TransformerConfig
from unmasked.interop import to_torch, torch_masks
from unmasked.loss import translation_loss
from unmasked.positions import SinusoidalPositions
from unmasked.search import beam, greedy
from unmasked.tokens import BOS, EOS, PADDING


@dataclass(frozen=True)
class Size:
    d_model: int
    n_heads: int
    n_layers: int
    d_ff: int
    vocab: int = 8000
    dropout: float = 0.1

    def config(self, **options: Any) -> TransformerConfig:
        """Ours, of this size."""
        return TransformerConfig(
            source_vocab=self.vocab,
            target_vocab=self.vocab,
            d_model=self.d_model,
            n_heads=self.n_heads,
            n_layers=self.n_layers,
            d_ff=self.d_ff,
            dropout=self.dropout,
            **options,
        )


class Ours(nn.Module):
    def __init__(self, size: Size, **options: Any) -> None:
        super().__init__()
        self.model = Transformer(size.config(final_norm=True, **options))  # as nn.Transformer has
        silence(self.model.generator.weight)

    def loss(self, source: Tensor, target: Tensor, *, packed: bool = False) -> Tensor:
        return translation_loss(self.model, source, target, smoothing=0.1, packed=packed)

    def greedy(self, source: Tensor, n: int, **options: Any) -> Tensor:
        tokens: Tensor = greedy(self.model, source, n, **options)
        return tokens

    def beam(self, source: Tensor, width: int, n: int) -> Tensor:
        return beam(self.model, source, width, n).tokens


class Torch(nn.Module):
    """nn.Transformer with the usual embeddings around it, and greedy search without a cache."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.model = to_torch(Ours(size).model)
        self.source = nn.Embedding(size.vocab, size.d_model)
        self.target = nn.Embedding(size.vocab, size.d_model)
        self.positions = SinusoidalPositions(size.d_model)
        self.dropout = nn.Dropout(size.dropout)
        self.generator = nn.Linear(size.d_model, size.vocab, bias=False)
        self.scale = size.d_model**0.5
        silence(self.generator.weight)

    def embed(self, table: nn.Embedding, tokens: Tensor) -> Tensor:
        x: Tensor = self.dropout(self.positions(table(tokens) * self.scale))
        return x

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        inputs, labels = target[:, :-1], target[:, 1:]
        x = self.model(
            self.embed(self.source, source),
            self.embed(self.target, inputs),
            **torch_masks(source, inputs),
        )
        return cross_entropy(self.generator(x), labels)

    @torch.inference_mode()
    def greedy(self, source: Tensor, n: int) -> Tensor:
        hidden = source == PADDING
        memory = self.model.encoder(self.embed(self.source, source), src_key_padding_mask=hidden)
        tokens = source.new_full((len(source), 1), BOS)
        for _ in range(n):
            x = self.model.decoder(
                self.embed(self.target, tokens),
                memory,
                tgt_mask=torch_masks(tokens, tokens)["tgt_mask"],
                memory_key_padding_mask=hidden,
            )
            best = self.generator(x[:, -1]).argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, best], dim=1)
        return tokens[:, 1:]


MARKS: dict[str, Any] = {
    "pad_token_id": PADDING, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS
}  # fmt: skip


class Marian(nn.Module):
    def __init__(self, size: Size) -> None:
        from transformers import MarianConfig, MarianMTModel  # not everybody has it

        super().__init__()
        config = MarianConfig(
            vocab_size=size.vocab,
            decoder_vocab_size=size.vocab,
            d_model=size.d_model,
            encoder_layers=size.n_layers,
            decoder_layers=size.n_layers,
            encoder_attention_heads=size.n_heads,
            decoder_attention_heads=size.n_heads,
            encoder_ffn_dim=size.d_ff,
            decoder_ffn_dim=size.d_ff,
            dropout=size.dropout,
            attention_dropout=size.dropout,
            activation_dropout=size.dropout,
            activation_function="relu",
            scale_embedding=True,
            share_encoder_decoder_embeddings=False,
            tie_word_embeddings=False,
            forced_eos_token_id=None,
            **MARKS,
        )
        self.model = MarianMTModel(config)
        silence(self.model.lm_head.weight)

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        inputs, labels = target[:, :-1], target[:, 1:]
        logits = self.model(
            input_ids=source,
            attention_mask=(source != PADDING).long(),
            decoder_input_ids=inputs,
            decoder_attention_mask=(inputs != PADDING).long(),
            use_cache=False,
        ).logits
        return cross_entropy(logits, labels)

    def greedy(self, source: Tensor, n: int) -> Tensor:
        return self.generate(source, 1, n)

    def beam(self, source: Tensor, width: int, n: int) -> Tensor:
        return self.generate(source, width, n)

    @torch.inference_mode()
    def generate(self, source: Tensor, width: int, n: int) -> Tensor:
        from transformers import GenerationConfig

        options = GenerationConfig(
            max_new_tokens=n, num_beams=width, do_sample=False, length_penalty=0.6, **MARKS
        )
        tokens: Tensor = self.model.generate(
            source, attention_mask=(source != PADDING).long(), generation_config=options
        )
        return tokens[:, 1:]


def ragged(rows: int, longest: int, *, shortest: int = 6, device: Any = "cpu") -> Tensor:
    """Random sentences of evenly spread lengths, the first one the longest."""
    lengths = torch.randint(shortest, longest + 1, (rows,))
    lengths[0] = longest
    tokens = torch.randint(3, Size.vocab, (rows, longest))
    return (tokens * (torch.arange(longest) < lengths[:, None])).to(device)


def training_step(
    model: nn.Module, loss: Callable[..., Any], dtype: Any = None, **options: Any
) -> Run:
    """Forward, backward and Adam; under autocast where a dtype is given."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, **options)
    device = next(model.parameters()).device.type

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device, dtype, enabled=dtype is not None):
            value = loss()
        value.backward()
        optimizer.step()

    return step


def written(model: Any, source: Tensor, width: int, n: int) -> Any:
    """So many new tokens by greedy search, or by a beam where the width is more than one."""
    return model.greedy(source, n) if width == 1 else model.beam(source, width, n)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """What everyone writes: all logits, padding ignored."""
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=PADDING, label_smoothing=0.1
    )


@torch.no_grad()
def silence(output: Tensor) -> None:
    """The end token's logit is 0 and never the highest of thousands."""
    output[EOS] = 0.0

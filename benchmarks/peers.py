"""Defines the same model three times, ours, torch.nn's and MarianMT, with one interface.

All have the same widths, depths, heads, vocabulary and dropout, untied embeddings and random
weights. The row of the end token is zero in every output matrix, so that nobody stops early.
"""

from collections.abc import Callable
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

VOCABULARY = 8000
MARKS: dict[str, Any] = {
    "pad_token_id": PADDING, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS
}  # fmt: skip


def sizes(
    d_model: int, n_heads: int, n_layers: int, d_ff: int, vocabulary: int = VOCABULARY
) -> TransformerConfig:
    """Returns the sizes of a model that has the last norms of nn.Transformer."""
    return TransformerConfig(
        source_vocab=vocabulary, target_vocab=vocabulary, d_model=d_model, n_heads=n_heads,
        n_layers=n_layers, d_ff=d_ff, final_norm=True,
    )  # fmt: skip


class Ours(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.model = Transformer(config)
        silence(self.model.generator.weight)

    def loss(self, source: Tensor, target: Tensor, *, packed: bool = False) -> Tensor:
        return translation_loss(self.model, source, target, smoothing=0.1, packed=packed)

    def search(self, source: Tensor, width: int, n: int) -> Tensor:
        if width == 1:
            return greedy(self.model, source, n)
        return beam(self.model, source, width, n).tokens


class Torch(nn.Module):
    """Torch is nn.Transformer with the usual embeddings, and greedy search without a cache."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        vocabulary, width = config.target_vocab, config.d_model
        self.model = to_torch(Transformer(config))
        self.source, self.target = (nn.Embedding(vocabulary, width) for _ in range(2))
        self.positions, self.scale = SinusoidalPositions(width), width**0.5
        self.dropout = nn.Dropout(config.dropout)
        self.generator = nn.Linear(width, vocabulary, bias=False)
        silence(self.generator.weight)

    def embed(self, table: nn.Embedding, tokens: Tensor) -> Tensor:
        x: Tensor = self.dropout(self.positions(table(tokens) * self.scale))
        return x

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        inputs, labels = target[:, :-1], target[:, 1:]
        masks = torch_masks(source, inputs)
        x = self.model(self.embed(self.source, source), self.embed(self.target, inputs), **masks)
        return cross_entropy(self.generator(x), labels)

    @torch.inference_mode()
    def search(self, source: Tensor, width: int, n: int) -> Tensor:
        assert width == 1
        hidden = source == PADDING
        memory = self.model.encoder(self.embed(self.source, source), src_key_padding_mask=hidden)
        tokens = source.new_full((len(source), 1), BOS)
        for _ in range(n):
            masks: Any = {"tgt_mask": torch_masks(tokens, tokens)["tgt_mask"]}
            x = self.embed(self.target, tokens)
            x = self.model.decoder(x, memory, memory_key_padding_mask=hidden, **masks)
            best = self.generator(x[:, -1]).argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, best], dim=1)
        return tokens[:, 1:]


class Marian(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        from transformers import MarianConfig, MarianMTModel  # not everybody has it

        super().__init__()
        stack = {"layers": config.n_layers, "attention_heads": config.n_heads,
                 "ffn_dim": config.d_ff}  # fmt: skip
        sides: Any = {
            f"{side}coder_{name}": n for name, n in stack.items() for side in ("en", "de")
        }
        theirs = MarianConfig(
            vocab_size=config.source_vocab, decoder_vocab_size=config.target_vocab,
            d_model=config.d_model, activation_function=config.activation, dropout=config.dropout,
            attention_dropout=config.dropout, activation_dropout=config.dropout,
            scale_embedding=True, share_encoder_decoder_embeddings=False,
            tie_word_embeddings=False, forced_eos_token_id=None, **sides, **MARKS,
        )  # fmt: skip
        self.model = MarianMTModel(theirs)
        silence(self.model.lm_head.weight)

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        inputs, labels = target[:, :-1], target[:, 1:]
        real, so_far = ((tokens != PADDING).long() for tokens in (source, inputs))
        found = self.model(source, real, inputs, so_far, use_cache=False)
        return cross_entropy(found.logits, labels)

    @torch.inference_mode()
    def search(self, source: Tensor, width: int, n: int) -> Tensor:
        from transformers import GenerationConfig

        options = GenerationConfig(
            max_new_tokens=n, num_beams=width, do_sample=False, length_penalty=0.6, **MARKS
        )
        tokens: Tensor = self.model.generate(
            source, attention_mask=(source != PADDING).long(), generation_config=options
        )
        return tokens[:, 1:]


def ragged(rows: int, longest: int, *, shortest: int = 6, device: Any = "cpu") -> Tensor:
    """Draws sentences of evenly spread lengths, the first one the longest."""
    lengths = torch.randint(shortest, longest + 1, (rows,))
    lengths[0] = longest
    tokens = torch.randint(3, VOCABULARY, (rows, longest))
    return (tokens * (torch.arange(longest) < lengths[:, None])).to(device)


def training_step(
    model: nn.Module, loss: Callable[..., Any], dtype: Any = None, **options: Any
) -> Run:
    """Returns a step of forward, backward and Adam, under autocast where a dtype is given."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, **options)
    device = next(model.parameters()).device.type

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device, dtype, enabled=dtype is not None):
            value = loss()
        value.backward()
        optimizer.step()

    return step


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Computes the loss that everyone writes: of all logits, with padding ignored."""
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=PADDING, label_smoothing=0.1
    )


@torch.no_grad()
def silence(output: Tensor) -> None:
    """Sets the end token's logit to 0, which is never the highest of thousands."""
    output[EOS] = 0.0

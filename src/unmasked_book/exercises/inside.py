"""Judges answers to the exercises of chapter 12."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unmasked import Transformer
from unmasked.loss import teacher_forcing
from unmasked.translator import Translator, load
from unmasked_book.ablation import Head, without
from unmasked_book.captions import caption_pairs
from unmasked_book.exercises.compare import function, same_number, same_tensor
from unmasked_book.exercises.encoder import pre_norm
from unmasked_book.inside import stream_parts


def differing(answer: Callable[[Translator, list[str], Head], Any]) -> str | None:
    """Judges a count of the texts that are translated differently without an attention head."""
    translator = load("en-de")
    texts = [text for text, _ in caption_pairs(translator)[10:22]]
    plain = translator.translate(texts)
    for head in (("cross", 0, 3), ("decoder", 0, 0)):
        smaller = without(translator.model, heads=[head])
        other = Translator(smaller, translator.source, translator.target, translator.about)
        changed = sum(a != b for a, b in zip(plain, other.translate(texts), strict=True))
        if wrong := same_number(answer(translator, texts, head), changed, 0.1):
            return f"{wrong} (twelve captions, without {head})"
    return None


def attribution(answer: Callable[[Transformer, Tensor, Tensor], Any]) -> str | None:
    """Judges the split of the right token's logit into residual-stream parts, then a constant."""
    for bias in (False, True):
        model = pre_norm(2, output_bias=bias)
        source = torch.tensor([[3, 4, 5, 2], [6, 2, 0, 0]])
        target = torch.tensor([[1, 7, 8, 2], [1, 5, 2, 0]])
        with torch.no_grad():
            got, expected = answer(model, source, target), parts(model, source, target)
        case = f"attribution(model, source, target), with output_bias={bias},"
        if wrong := same_tensor(got, expected, case, atol=1e-4):
            return wrong
    return None


def parts(model: Transformer, source: Tensor, target: Tensor) -> Tensor:
    inputs, labels = teacher_forcing(target)
    added = torch.stack([part for _, part in stream_parts(model, source, inputs)])
    norm: Any = model.decoder.norm
    deviation = (added.sum(0).var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    rows = model.generator.weight[labels]  # [B, T, D]
    normed = (added - added.mean(-1, keepdim=True)) / deviation * norm.weight
    constant = (norm.bias * rows).sum(-1)
    if model.generator.bias is not None:
        constant = constant + model.generator.bias[labels]
    return torch.cat([(normed * rows).sum(-1), constant[None]])


PLACES = ((torch.arange(25.0).view(5, 5) / 25, offset) for offset in (0, -1, 1, 3))
CHECKS = {
    "1": function("mean_at", lambda w, k: w.diagonal(k).mean().item(), *PLACES, tolerance=1e-5),
    "2": differing,
    "+": attribution,
}

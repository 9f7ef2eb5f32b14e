"""What training minimises: cross-entropy with label smoothing (5.4), on real tokens only."""

from __future__ import annotations

import torch
from torch import Tensor

from .config import PADDING
from .errors import check_tokens, checked, contracts, invalid, shape
from .fast.chunked_loss import summed_loss
from .fast.guard import is_plain
from .fast.packed import packed_decode
from .masks import padding_mask
from .transformer import Transformer

MANY = 1 << 20  # logits; above it they are made in parts


def teacher_forcing(target: Tensor) -> tuple[Tensor, Tensor]:
    """What the decoder reads and what it must say next: [B, T + 1] → twice [B, T]."""
    check_tokens("target", target)
    if target.shape[1] < 2:
        fix = "a target begins with BOS and ends with EOS"
        raise invalid("target", "at least two tokens a row", f"shape {shape(target)}", fix)
    return target[:, :-1], target[:, 1:]


@checked(contracts.translation_loss)
def translation_loss(
    model: Transformer,
    source: Tensor,
    target: Tensor,
    *,
    smoothing: float = 0.0,
    packed: bool = False,
    total: int | None = None,
) -> Tensor:
    """The mean cross-entropy over the labels that are no padding: [B, S], [B, T + 1] → a scalar.

    Logits are computed for these labels alone: the last layer is the model's widest. `packed`
    leaves padding out of every other position-wise layer too, where the model is plain enough for
    that; targets must then be padded on the right. `total` is for a part of a larger batch: that
    batch's number of labels, by which the part's sum is divided, so that the parts add up to the
    mean of the whole.
    """
    inputs, labels = teacher_forcing(target)
    real = labels != PADDING
    if not real.any():
        fix = "a target needs a word or an EOS after its BOS"
        raise invalid("target", "at least one label", "padding only", fix)
    if packed and is_plain(model):
        hidden = packed_decode(model, source, inputs, real)
    else:
        memory = model.encode(source)
        hidden = model.decode(inputs, memory, source_mask=padding_mask(source))[real]
    labels = labels[real].long()
    generator = model.generator
    count = len(labels) if total is None else total
    many = len(labels) * model.config.target_vocab > MANY
    compiling = torch.compiler.is_compiling()
    if many and torch.is_grad_enabled() and not compiling and is_plain(generator):
        return summed_loss(hidden, generator.weight, generator.bias, labels, smoothing) / count
    return smoothed_cross_entropy(generator(hidden), labels, smoothing).sum() / count


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The cross-entropy of each label: [N, V], [N] → [N].

    With smoothing the aim is not all on the label: that share of it is spread evenly over the
    vocabulary, the label included.
    """
    precise = torch.promote_types(logits.dtype, torch.float32)  # autocast leaves halves on a CPU
    log_probabilities = logits.log_softmax(-1, dtype=precise)
    of_label = -log_probabilities.gather(-1, labels[:, None])[:, 0]
    return (1 - smoothing) * of_label - smoothing * log_probabilities.mean(-1)

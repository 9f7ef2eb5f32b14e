"""Computes cross-entropy with label smoothing (section 5.4), leaving out padding."""

import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .chunked_loss import summed_loss
from .errors import (
    invalid,
    require_probability,
    require_tokens,
    require_type,
    require_whole,
    shape,
)
from .layers import is_plain, mixing
from .masks import padding_mask
from .tokens import PADDING
from .transformer import Transformer, require_called

MANY = 1 << 20  # more logits than this are computed in parts


def teacher_forcing(target: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the decoder's inputs, without the last token, and the labels, without the first."""
    require_tokens("target", target)
    if target.shape[1] < 2:
        fix = "a target begins with BOS and ends with EOS"
        raise invalid("target", "at least two tokens a row", f"shape {shape(target)}", fix)
    return target[:, :-1], target[:, 1:]


def translation_loss(
    model: Transformer,
    source: Tensor,
    target: Tensor,
    *,
    smoothing: float = 0.0,
    packed: bool = False,
    total: int | None = None,
) -> Tensor:
    """Computes the mean cross-entropy of labels except padding: [B, S], [B, T + 1] → a scalar.

    Args:
        model: of this package; its encode, decode and generator are called.
        source: tokens, each sentence with its EOS, padded.
        target: tokens, each sentence between BOS and EOS, padded.
        smoothing: the share of each label that is spread over the vocabulary.
        packed: leaves padding out of every layer; targets must then be padded on the right.
        total: the number of labels of a larger batch, if this is a part; parts sum to its mean.
    """
    require_called(model)
    require_probability("smoothing", smoothing)
    require_type("packed", packed, bool)
    if total is not None:
        require_whole("total", total)
    require_tokens("source", source, model.config.source_vocab)
    require_tokens("target", target, model.config.target_vocab)
    if len(source) != len(target):
        fix = "give each source sentence one target"
        raise invalid("target", f"a batch of {len(source)}", len(target), fix)
    inputs, labels = teacher_forcing(target)
    real = labels != PADDING
    if not real.any():
        fix = "a target needs a word or an EOS after its BOS"
        raise invalid("target", "at least one label", "padding only", fix)
    hidden = hidden_states(model, source, inputs, real, packed)
    labels = labels[real].long()
    return summed(model.generator, hidden, labels, smoothing) / (total or len(labels))


def hidden_states(
    model: Transformer, source: Tensor, inputs: Tensor, real: Tensor, packed: bool
) -> Tensor:
    """Returns the decoder's outputs where `real` [B, T] is True: [B, S], [B, T] → [N, D]."""
    read, mask = source != PADDING, padding_mask(source)
    if not packed or not may_pack(model):
        return model.decode(inputs, model.encode(source), source_mask=mask)[real]
    if not bool(read.any()):
        raise invalid("source", "at least one real token", "padding only", "leave the batch out")
    if bool((real & (inputs == PADDING)).any() or (real[:, 1:] & ~real[:, :-1]).any()):
        fix = "pad on the right, or use packed=False"
        raise invalid("target", "its real labels first in every row", "padding before one", fix)
    memory = model.encode(source, only=read)
    return model.decode(inputs, memory, source_mask=mask, only=(real, read))[real]


def may_pack(model: Transformer) -> bool:
    """Returns True if no submodule may mix sequence positions, and warns of one that may."""
    _, foreign, heard = mixing(model)
    if foreign or heard:
        why = "does not say `by_position = True`" if foreign else "has a hook"
        warnings.warn(f"packed: padding stays in: {foreign or heard} {why}", stacklevel=5)
    return not foreign and not heard


def summed(generator: nn.Linear, hidden: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Sums the cross-entropies of hidden [N, D] and labels [N], in chunks if logits are many."""
    many = len(labels) * getattr(generator, "out_features", 0) > MANY
    compiling = torch.compiler.is_compiling()
    if many and torch.is_grad_enabled() and not compiling and is_plain(generator):
        return summed_loss(hidden, generator.weight, generator.bias, labels, smoothing)
    return smoothed_cross_entropy(generator(hidden), labels, smoothing).sum()


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Computes each label's cross-entropy, smoothed over all V words: [N, V], [N] → [N]."""
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))  # autocast's are halves
    return F.cross_entropy(precise, labels, reduction="none", label_smoothing=smoothing)

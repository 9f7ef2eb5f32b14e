"""What training minimises: cross-entropy with label smoothing (5.4), on real tokens only."""

import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .chunked_loss import summed_loss
from .errors import invalid, require_probability, require_tokens, shape
from .layers import is_plain, mixing
from .masks import padding_mask
from .tokens import PADDING
from .transformer import Transformer, require_called

MANY = 1 << 20  # logits; above it they are made in parts


def teacher_forcing(target: Tensor) -> tuple[Tensor, Tensor]:
    """What the decoder reads and what it must say next: [B, T + 1] → twice [B, T]."""
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
    """The mean cross-entropy over the labels that are no padding: [B, S], [B, T + 1] → a scalar.

    Logits are computed for these labels alone: the last layer is the model's widest.

    Args:
        model: of this package; encode, decode and generator are called.
        source: tokens, each sentence with its EOS, padded.
        target: tokens, each sentence between BOS and EOS, padded.
        smoothing: the share of each label that is spread over the vocabulary.
        packed: leaves padding out of every other position-wise layer too, where the model is plain
            enough for that; targets must then be padded on the right.
        total: for a part of a larger batch, that batch's number of labels, by which the part's sum
            is divided, so that the parts add up to the mean of the whole.
    """
    require_loss(model, source, target, smoothing)
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
    """What the decoder makes of its inputs, where it is wanted: [B, S], [B, T], [B, T] → [N, D]."""
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
    """Says whether every part works by position, and warns of one that does not."""
    _, foreign, heard = mixing(model)
    if foreign or heard:
        why = "does not say `by_position = True`" if foreign else "has a hook"
        warnings.warn(f"packed: padding stays in: {foreign or heard} {why}", stacklevel=5)
    return not foreign and not heard


def summed(generator: nn.Linear, hidden: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The sum of all cross-entropies; where there are very many logits, made in parts."""
    many = len(labels) * getattr(generator, "out_features", 0) > MANY
    compiling = torch.compiler.is_compiling()
    if many and torch.is_grad_enabled() and not compiling and is_plain(generator):
        return summed_loss(hidden, generator.weight, generator.bias, labels, smoothing)
    return smoothed_cross_entropy(generator(hidden), labels, smoothing).sum()


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The cross-entropy of each label: [N, V], [N] → [N].

    With smoothing the aim is not all on the label: that share of it is spread evenly over the
    vocabulary, the label included.
    """
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))  # autocast's are halves
    return F.cross_entropy(precise, labels, reduction="none", label_smoothing=smoothing)


def require_loss(model: Transformer, source: Tensor, target: Tensor, smoothing: float) -> None:
    require_called(model)
    require_probability("smoothing", smoothing)
    require_tokens("source", source, model.config.source_vocab)
    require_tokens("target", target, model.config.target_vocab)
    if len(source) != len(target):
        fix = "give each source sentence one target"
        raise invalid("target", f"a batch of {len(source)}", len(target), fix)

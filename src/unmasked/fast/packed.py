"""The same model with padding left out of everything that works position by position.

In a ragged batch a third of the positions may be padding. Projections, norms and feed-forward
layers do not care which sentence a position belongs to, so here they see one long row of real
positions, [1, N, D]; only attention gets its sentences back. The numbers are those of the model's
own forward, within rounding.
"""

from typing import Any

from torch import Tensor

from ..attention import MultiHeadAttention, attention
from ..errors import invalid
from ..masks import causal_mask, padding_mask
from ..tokens import PADDING
from ..transformer import Transformer


class Layout:
    """Which positions of a padded batch [B, S] are real, and the way there and back."""

    def __init__(self, real: Tensor) -> None:
        self.batch, self.length = real.shape
        self.full = bool(real.all())  # without padding, both ways are only another shape
        self.index = None if self.full else real.flatten().nonzero()[:, 0]  # [N]

    def pack(self, x: Tensor) -> Tensor:  # [B, S, D] → [1, N, D]
        rows = x.flatten(0, 1)
        return (rows if self.index is None else rows.index_select(0, self.index))[None]

    def unpack(self, x: Tensor) -> Tensor:  # [1, N, D] → [B, S, D], zeros at padding
        if self.index is None:
            return x.view(self.batch, self.length, -1)
        rows = x.new_zeros(self.batch * self.length, x.shape[-1])
        return rows.index_copy(0, self.index, x[0]).view(self.batch, self.length, -1)


def attend(
    x: Tensor,
    *,
    module: MultiHeadAttention,
    layout: Layout,
    mask: Tensor | None,
    memory: tuple[Tensor, Layout] | None = None,
) -> Tensor:
    """The module's attention over packed positions [1, N, D], in self or across to a memory."""
    key, key_layout = (x, layout) if memory is None else memory
    q = module.split(layout.unpack(module.query(x)))
    k = module.split(key_layout.unpack(module.key(key)))
    v = module.split(key_layout.unpack(module.value(key)))
    dropout = module.dropout if module.training else 0.0
    attended = module.merge(attention(q, k, v, mask, dropout=dropout))
    return module.output(layout.pack(attended))


def packed_encode(model: Transformer, source: Tensor, layout: Layout) -> Tensor:
    """What `model.encode` gives at the real positions: [1, N, D]. For plain models only."""
    layer: Any
    x = layout.pack(model.source_embedding(source))
    mask = None if layout.full else padding_mask(source)
    for layer in model.encoder.layers:
        module = layer.self_attention
        x = layer.attention_residual(x, attend, module=module, layout=layout, mask=mask)
        x = layer.feed_forward_residual(x, layer.feed_forward)
    return x if model.encoder.norm is None else model.encoder.norm(x)


def packed_decode(model: Transformer, source: Tensor, target: Tensor, real: Tensor) -> Tensor:
    """What `model.decode` gives at the target's `real` positions: [N, D].

    For plain models only (`guard.is_plain`). `real` [B, T] marks the target positions whose output
    is wanted; in each row they come first, so that none of them looks back at an unwanted one.
    """
    if not bool((source != PADDING).any()):
        raise invalid("source", "at least one real token", "padding only", "leave the batch out")
    if bool((real & (target == PADDING)).any() or (real[:, 1:] & ~real[:, :-1]).any()):
        fix = "pad on the right, or use packed=False"
        raise invalid("target", "its real labels first in every row", "padding before one", fix)
    layer: Any
    across, own = Layout(source != PADDING), Layout(real)
    memory = packed_encode(model, source, across)
    x = own.pack(model.target_embedding(target))
    back = {"layout": own, "mask": causal_mask(target.shape[1], device=target.device)}
    mask = None if across.full else padding_mask(source)
    over = {"layout": own, "mask": mask, "memory": (memory, across)}
    for layer in model.decoder.layers:
        x = layer.self_residual(x, attend, module=layer.self_attention, **back)
        x = layer.cross_residual(x, attend, module=layer.cross_attention, **over)
        x = layer.feed_forward_residual(x, layer.feed_forward)
    x = x if model.decoder.norm is None else model.decoder.norm(x)
    return x[0]

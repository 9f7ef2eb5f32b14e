"""Masks as grids: who may attend to whom, and if not, why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from torch import Tensor

from .picture import GREY, PAD, STYLE, Labels, Picture, dress, labels, matrix, panels

MAY, PADDING, FUTURE, OTHER = "may attend", "hidden: padding", "hidden: the future", "hidden"
FILL = {MAY: "#14639c", PADDING: "#f3cf94", FUTURE: "#d9dee4", OTHER: "#eef0f2"}
HATCH = {MAY: "", PADDING: "////", FUTURE: "....", OTHER: ""}


def masks(masks: Mapping[str, Tensor], queries: Labels = None, keys: Labels = None) -> Picture:
    """Masks side by side: each row a query, each column a key that it may attend to or not."""
    return _mask_grid([[(title, mask, queries, keys) for title, mask in masks.items()]])


def batch_masks(
    source: Sequence[Sequence[str]],
    target: Sequence[Sequence[str]],
    *,
    encoder: Tensor,
    decoder: Tensor,
    cross: Tensor,
) -> Picture:
    """The three masks of a Transformer: a row for each sentence, with its words on the axes."""
    return _mask_grid(
        [
            [
                ("encoder", encoder[i], read, read),
                ("decoder", decoder[i], written, written),
                ("cross-attention", cross[i], written, read),
            ]
            for i, (read, written) in enumerate(zip(source, target, strict=True))
        ]
    )


def _mask_grid(grid: list[list[tuple[str, Tensor, Labels, Labels]]]) -> Picture:
    words, met = [], {MAY}
    with rc_context(STYLE):
        figure, axes = panels(len(grid), len(grid[0]), height=2.4)
        for line, places in zip(grid, axes, strict=True):
            for (title, mask, queries, keys), axis in zip(line, places, strict=True):
                allowed = matrix(title, mask).astype(bool)
                if len(allowed) == 1 and queries is not None:  # one row serves every query
                    allowed = allowed.repeat(len(queries), axis=0)
                reasons = _reasons(allowed, labels("keys", keys, allowed.shape[1]))
                _draw_mask(axis, reasons)
                first, last = places[0] is axis, line is grid[-1]
                dress(
                    axis,
                    title,
                    labels("queries", queries, len(allowed)),
                    keys,
                    x="keys" if last else "",
                    y="queries" if first else "",
                )
                hidden = [f"{(reasons == r).sum()} {r}" for r in list(FILL)[1:] if r in reasons]
                met.update(reasons.flat)
                words.append(
                    f"{title}, {_named(queries, 'queries')} over {_named(keys, 'keys')}: "
                    f"{allowed.sum()} of {allowed.size} pairs may attend"
                    + "".join(f", {entry}" for entry in hidden)
                )
        kinds = [kind for kind in FILL if kind in met]
        handles = [Patch(fc=FILL[k], hatch=HATCH[k], ec=GREY, label=k) for k in kinds]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return Picture(figure, f"Masks drawn as grids. {'; '.join(words)}.")


def _named(words: Labels, otherwise: str) -> str:
    return f"“{' '.join(words)}”" if words else otherwise


def _reasons(allowed: np.ndarray, keys: list[str]) -> np.ndarray:
    """Why each pair is as it is: the key is padding, or comes after the query, or neither."""
    row, column = np.indices(allowed.shape)
    padded = np.array([key == PAD for key in keys])[column]
    hidden = np.where(padded, PADDING, np.where(column > row, FUTURE, OTHER))
    return np.where(allowed, MAY, hidden)


def _draw_mask(axis: Axes, reasons: np.ndarray) -> None:
    for (row, column), reason in np.ndenumerate(reasons):
        corner = (column - 0.5, row - 0.5)
        fill, hatch = FILL[reason], HATCH[reason]
        axis.add_patch(Rectangle(corner, 1, 1, facecolor=fill, hatch=hatch, edgecolor="white"))
    height, width = reasons.shape
    axis.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5), aspect="equal")

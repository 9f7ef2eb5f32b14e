"""Attention weights as grids, each query named with the key that gets most of its weight."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from matplotlib import rc_context
from matplotlib.patches import Rectangle
from torch import Tensor

from .picture import COLOURS, STRONG, STYLE, Picture, dress, labels, matrix, panels


def attention_maps(
    maps: Mapping[str, Tensor],
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    per_row: int = 4,
    marked: Collection[tuple[int, int]] = (),
) -> Picture:
    """Attention weights, one panel a head or layer: each row a query, darker where it attends more.

    In words, each query is named with the key that gets most of its weight. The squares of the
    `marked` pairs (query, key) get a frame.
    """
    grid = [(title, map_, queries, keys) for title, map_ in maps.items()]
    return _map_grid(grid, per_row, marked)


def sentence_maps(
    source: Sequence[str],
    target: Sequence[str],
    *,
    encoder: Tensor,
    decoder: Tensor,
    cross: Tensor,
) -> Picture:
    """The three attentions of one sentence side by side: within the source, the target, across."""
    return _map_grid(
        [
            ("encoder", encoder, source, source),
            ("decoder", decoder, target, target),
            ("cross-attention", cross, target, source),
        ],
        per_row=3,
    )


def _map_grid(
    grid: list[tuple[str, Tensor, Sequence[str], Sequence[str]]],
    per_row: int,
    marked: Collection[tuple[int, int]] = (),
) -> Picture:
    columns = min(per_row, len(grid))
    rows = -(-len(grid) // columns)
    words = []
    with rc_context(STYLE):
        figure, axes = panels(rows, columns, height=7.6 / max(2, columns))
        places = [(axis, line) for line in axes for axis in line]
        for (title, weights, queries, keys), (axis, line) in zip(grid, places, strict=False):
            array = matrix(title, weights)
            axis.imshow(array, STRONG, vmin=0.0, vmax=1.0).set_interpolation("nearest")
            rows_named = labels("queries", queries, len(array))
            columns_named = labels("keys", keys, array.shape[1])
            x, y = "keys" if line is axes[-1] else "", "queries" if axis is line[0] else ""
            dress(axis, title, rows_named, columns_named, x=x, y=y)
            for query, key in marked:
                corner = (key - 0.5, query - 0.5)
                axis.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=COLOURS[1], lw=1.6))
            strongest = ", ".join(
                f"{query} to {keys[row.argmax()]} {row.max():.2f}"
                for query, row in zip(queries, array, strict=True)
            )
            words.append(f"{title}: {strongest}")
        for axis, _ in places[len(grid) :]:
            axis.set_visible(False)
    framed = ", ".join(f"{grid[0][2][query]} to {grid[0][3][key]}" for query, key in sorted(marked))
    words += [f"framed: {framed}"] if marked else []
    return Picture(figure, f"Attention weights, the strongest of each query. {'; '.join(words)}.")

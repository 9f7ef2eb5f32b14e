"""Draws matrices, masks, attention maps and batches as grids, and describes each in words."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch, Rectangle
from torch import Tensor

from ..tokens import PADDING
from .picture import (
    COLOURS,
    INK,
    PAD,
    SIGNED,
    STRONG,
    STYLE,
    Labels,
    Picture,
    dress,
    labels,
    legend,
    matrix,
    number,
    panels,
    tiles,
)

# --- Matrices ---------------------------------------------------------------------------------


def matrices(
    matrices: Mapping[str, Tensor | np.ndarray],
    rows: Labels = None,
    columns: Labels = None,
    *,
    x: str = "",
    y: str = "",
    numbers: bool = False,
    signed: bool = False,
    one_scale: bool = False,
    unit: str = "",
    height: float = 2.6,
    per_row: int = 8,
    marked: Mapping[str, Collection[Sequence[int]]] | None = None,
    limit: float | None = None,
    title: str = "",
) -> Picture:
    """Draws heat maps side by side: on one colour scale, or on one each if `numbers` fill cells.

    `one_scale` keeps one scale with numbers, too. `signed` puts zero in the middle of the colours,
    which otherwise begin at the lowest value. `unit` says what the scale measures. The cells of
    `marked`, (row, column) pairs for each map's name, get a frame. Values beyond `limit`, of either
    sign if `signed`, have its colour.
    """
    arrays = {name: matrix(name, values) for name, values in matrices.items()}
    everything = np.concatenate([array.ravel() for array in arrays.values()])
    words = []
    with rc_context(STYLE):
        figure, axes = tiles(len(arrays), per_row, height)
        for (name, array), axis in zip(arrays.items(), axes, strict=True):
            low, high = limits(array if numbers and not one_scale else everything, signed)
            if limit is not None:
                low, high = (-limit, limit) if signed else (low, limit)
            image = axis.imshow(array, SIGNED if signed else STRONG, vmin=low, vmax=high)
            axis.set_aspect("equal" if rows or columns else "auto")
            dress(axis, name, rows and labels("rows", rows, len(array)), columns, x=x, y=y)
            if numbers:
                write_numbers(axis, array, low, high, signed)
            least, most = limits(array, signed=False)
            words.append(
                f"{name}: {array.shape[0]} rows by {array.shape[1]} columns, "
                f"values from {number(least)} to {number(most)}"
            )
            if framed := sorted(map(tuple, (marked or {}).get(name, ()))):
                for row, column in framed:
                    frame(axis, row, column, INK, inset=0.05)
                cells = ", ".join(f"{row + 1}.{column + 1}" for row, column in framed)
                words[-1] += f", framed {cells}"
        if not numbers:
            figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02, label=unit)
        figure.suptitle(title, fontsize=10.5, fontweight="bold")
    kind = f"Heat map{'s' * (len(words) > 1)}"
    return Picture(figure, f"{title or kind}. {'; '.join(words)}.")


def limits(values: np.ndarray, signed: bool) -> tuple[float, float]:
    """Returns the lowest and highest finite value; if signed, -m and m for the greatest size m."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    far = max(-low, high)
    return (-far, far) if signed else (low, high)


def frame(
    axis: Axes, row: int, column: int, colour: str = COLOURS[1], *, inset: float = 0.0
) -> None:
    corner, side = (column - 0.5 + inset, row - 0.5 + inset), 1 - 2 * inset
    axis.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=colour, lw=1.6, zorder=3))


def write_numbers(axis: Axes, array: np.ndarray, low: float, high: float, signed: bool) -> None:
    for (row, column), value in np.ndenumerate(array):
        strength = abs(value) / (high or 1) if signed else (value - low) / ((high - low) or 1)
        colour = "white" if np.isfinite(value) and strength > 0.6 else INK
        text = f"{value:.2f}" if np.isfinite(value) else str(value).replace("inf", "∞")
        text = text.replace("-", "−")
        axis.text(column, row, text, ha="center", va="center", color=colour, fontsize=8.5)


# --- Masks ------------------------------------------------------------------------------------

MAY, PADDED, FUTURE, OTHER = "may attend", "hidden: padding", "hidden: the future", "hidden"
FILL = {MAY: "#14639c", PADDED: "#f3cf94", FUTURE: "#d9dee4", OTHER: "#eef0f2"}
HATCH = {PADDED: "////", FUTURE: "...."}


def masks(masks: Mapping[str, Tensor], queries: Labels = None, keys: Labels = None) -> Picture:
    """Draws masks side by side: rows are queries, columns keys, colours say why keys are hidden."""
    return mask_grid([[(title, mask, queries, keys) for title, mask in masks.items()]])


def batch_masks(
    source: Sequence[Sequence[str]],
    target: Sequence[Sequence[str]],
    *,
    encoder: Tensor,
    decoder: Tensor,
    cross: Tensor,
) -> Picture:
    """Draws a Transformer's three masks in a row for each sentence pair, labelled by its words."""
    return mask_grid(
        [
            [
                ("encoder", encoder[i], read, read),
                ("decoder", decoder[i], written, written),
                ("cross-attention", cross[i], written, read),
            ]
            for i, (read, written) in enumerate(zip(source, target, strict=True))
        ]
    )


def mask_grid(grid: list[list[tuple[str, Tensor, Labels, Labels]]]) -> Picture:
    words, met = [], {MAY}
    with rc_context(STYLE):
        figure, axes = panels(len(grid), len(grid[0]), height=2.4)
        for line, places in zip(grid, axes, strict=True):
            for (title, mask, queries, keys), axis in zip(line, places, strict=True):
                allowed = matrix(title, mask).astype(bool)
                if len(allowed) == 1 and queries is not None:  # one row serves every query
                    allowed = allowed.repeat(len(queries), axis=0)
                reasons = reasons_of(allowed, labels("keys", keys, allowed.shape[1]))
                for (row, column), reason in np.ndenumerate(reasons):
                    corner, hatch = (column - 0.5, row - 0.5), HATCH.get(reason, "")
                    square = Rectangle(corner, 1, 1, fc=FILL[reason], hatch=hatch, ec="white")
                    axis.add_patch(square)
                height, width = reasons.shape
                axis.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5), aspect="equal")
                x, y = "keys" * (line is grid[-1]), "queries" * (axis is places[0])
                dress(axis, title, labels("queries", queries, len(allowed)), keys, x=x, y=y)
                hidden = [f"{(reasons == r).sum()} {r}" for r in list(FILL)[1:] if r in reasons]
                met.update(reasons.flat)
                words.append(
                    f"{title}, {named(queries, 'queries')} over {named(keys, 'keys')}: "
                    f"{allowed.sum()} of {allowed.size} pairs may attend"
                    + "".join(f", {entry}" for entry in hidden)
                )
        legend(figure, FILL, HATCH, met)
    return Picture(figure, f"Masks drawn as grids. {'; '.join(words)}.")


def named(words: Labels, otherwise: str) -> str:
    return f"“{' '.join(words)}”" if words else otherwise


def reasons_of(allowed: np.ndarray, keys: list[str]) -> np.ndarray:
    """Returns for each (query, key) one text of `FILL`: "may attend", or why the key is hidden."""
    row, column = np.indices(allowed.shape)
    padded = np.array([key == PAD for key in keys])[column]
    later = (column > row) & allowed.any(0)
    hidden = np.where(padded, PADDED, np.where(later, FUTURE, OTHER))
    return np.where(allowed, MAY, hidden)


# --- Attention maps ---------------------------------------------------------------------------


def attention_maps(
    maps: Mapping[str, Tensor],
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    predicted: Sequence[str] | None = None,
    per_row: int = 4,
    marked: Collection[tuple[int, int]] = (),
    xlabel: str = "keys",
) -> Picture:
    """Draws a panel of attention weights for each map: rows are queries, darker for more weight.

    With `predicted` a decoder's rows are named "token read → next token". The picture's words
    name each query's strongest key. The `marked` pairs (query, key) get a frame.
    """
    y = "queries"
    if predicted is not None:
        pairs = zip(queries, labels("predicted", predicted, len(queries)), strict=True)
        queries, y = [f"{read} → {then}" for read, then in pairs], "token read → next token"
    grid = [(title, map_, queries, keys) for title, map_ in maps.items()]
    return map_grid(grid, per_row, marked, xlabel, y)


def sentence_maps(
    source: Sequence[str], target: Sequence[str], *, encoder: Tensor, decoder: Tensor, cross: Tensor
) -> Picture:
    """Draws one sentence pair's attention weights in the encoder, the decoder and between them."""
    return map_grid(
        [
            ("encoder", encoder, source, source),
            ("decoder", decoder, target, target),
            ("cross-attention", cross, target, source),
        ],
        per_row=3,
    )


def map_grid(
    grid: list[tuple[str, Tensor, Sequence[str], Sequence[str]]],
    per_row: int,
    marked: Collection[tuple[int, int]] = (),
    xlabel: str = "keys",
    ylabel: str = "queries",
) -> Picture:
    columns = min(per_row, len(grid))
    rows = -(-len(grid) // columns)
    words = []
    alike = len({(tuple(queries), tuple(keys)) for _, _, queries, keys in grid}) == 1
    with rc_context(STYLE):
        height = (5.8 if alike and rows > 1 else 6.6 if alike else 7.6) / max(2, columns)
        height += 0.45 * (rows == 1 and columns == 2)  # room for what stands above and below
        figure, axes = tiles(len(grid), per_row, 4.6 if len(grid) == 1 else height)
        if len(grid) == 1:  # in the middle, with its names and its scale beside it
            figure.set_layout_engine("compressed")
        for (title, weights, queries, keys), axis in zip(grid, axes, strict=True):
            array = matrix(title, weights)
            image = axis.imshow(array, STRONG, vmin=0.0, vmax=1.0)
            left, lowest = axis in axes[::columns], axis in axes[(rows - 1) * columns :]
            rows_named = labels("queries", queries, len(array))
            columns_named = labels("keys", keys, array.shape[1])
            x, y = xlabel * lowest, ylabel * left
            dress(axis, title, rows_named, columns_named, x=x, y=y)
            if alike:  # named once, at the left and at the bottom, which leaves more for the maps
                axis.tick_params(labelleft=left, labelbottom=lowest)
            for query, key in marked:
                frame(axis, query, key)
            strongest = ", ".join(
                f"{query} to {keys[row.argmax()]} {row.max():.2f}"
                for query, row in zip(queries, array, strict=True)
            )
            words.append(f"{title}: {strongest}")
        figure.colorbar(image, ax=axes, shrink=0.7, pad=0.02, label="weight")
    framed = ", ".join(f"{grid[0][2][query]} to {grid[0][3][key]}" for query, key in sorted(marked))
    words += [f"framed: {framed}"] if marked else []
    return Picture(figure, f"Attention weights, the strongest of each query. {'; '.join(words)}.")


# --- Batches ----------------------------------------------------------------------------------

KINDS = {"a word": COLOURS[0], "padding": FILL[PADDED]}


def batches(batches: Mapping[str, Tensor]) -> Picture:
    """Draws batches of token IDs side by side, a row a sentence, padding in another colour."""
    words = []
    with rc_context(STYLE):
        figure, axes = panels(1, len(batches), 2.6)
        for (title, tokens), axis in zip(batches.items(), axes[0], strict=True):
            real = matrix(title, tokens) != PADDING
            share = f"{100 * (1 - real.mean()):.0f}% padding"
            colormap = ListedColormap(list(KINDS.values()))
            axis.pcolormesh(~real, cmap=colormap, edgecolor="white", linewidth=0.4, vmin=0, vmax=1)
            axis.invert_yaxis()
            axis.set(title=title, xlabel=share, xticks=[], yticks=[])
            words.append(f"{title}: {len(real)} sentences in {real.shape[1]} places, {share}")
        axes[0][0].set_ylabel("sentences")
        handles = [Patch(fc=colour, label=name) for name, colour in KINDS.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return Picture(figure, f"Batches as rows of words and padding. {'; '.join(words)}.")

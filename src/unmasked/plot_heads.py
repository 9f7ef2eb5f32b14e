"""What each head does, as a grid of layers and heads for each role."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib import rc_context
from torch import Tensor

from .picture import INK, STRONG, STYLE, Picture, dress, matrix, panels


def head_roles(roles: Mapping[str, Tensor | np.ndarray], *, title: str) -> Picture:
    """The mean weight of every head, in per cent: a panel a role, a row a layer, a column a head.

    In words, each role is named with the head that plays it most.
    """
    words = []
    with rc_context(STYLE):
        figure, [axes] = panels(1, len(roles), 7.2 / max(3, len(roles)))
        for (role, values), axis in zip(roles.items(), axes, strict=True):
            array = matrix(role, values)
            axis.imshow(array, STRONG, vmin=0.0, vmax=1.0).set_interpolation("nearest")
            for (layer, head), value in np.ndenumerate(array):
                colour = "white" if value > 0.55 else INK
                axis.text(head, layer, f"{100 * value:.0f}", ha="center", va="center", color=colour)
            numbers = [[str(n + 1) for n in range(size)] for size in array.shape]
            dress(axis, role, *numbers, x="head", y="layer" if axis is axes[0] else "")
            layer, head = np.unravel_index(array.argmax(), array.shape)
            words.append(
                f"{role}: most {100 * array.max():.0f} in layer {layer + 1}, head {head + 1}, "
                f"over all heads {100 * array.mean():.0f}"
            )
        figure.suptitle(title, fontsize=10.5)
    return Picture(figure, f"{title}. Per cent of a query's weight. {'; '.join(words)}.")

"""Measures and draws where each attention head looks, over many sentences (chapter 12)."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from matplotlib import rc_context
from torch import Tensor

from unmasked.evaluation import SentenceMaps, maps_of_pairs
from unmasked.plots.picture import INK, STRONG, STYLE, Picture, dress, matrix, panels
from unmasked.translator import Translator

Links = frozenset[tuple[int, int]]  # (source place, target place) of words that belong together


def word_of_each(pieces: Sequence[str], words: Sequence[str]) -> list[int]:
    """Returns for each subword, such as ▁br or own, the index of the word that it is part of."""
    ends = np.cumsum([len(word) for word in words])
    lengths = [len(piece.replace("▁", "")) for piece in pieces]
    begins = np.cumsum([0, *lengths])[:-1]
    return [int(number) for number in np.searchsorted(ends, begins, side="right")]


ROLES = {"encoder": ("previous", "next"), "decoder": ("beginning",), "cross": ("aligned",)}


def head_atlas(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    alignments: Sequence[Collection[tuple[int, int]]],
) -> dict[str, dict[str, Tensor]]:
    """Returns each head's mean weight [layers, H] on the keys of a role, by attention, then role.

    A role says which key to look at, such as the token before the query (`ROLES`). Queries without
    such a key, as the first token has none before it, do not count. `alignments` holds for each of
    the `pairs` (source, target) positions of tokens that translate each other.
    """
    found: dict[tuple[str, str], list[Tensor]] = defaultdict(list)
    for maps, links in zip(maps_of_pairs(translator, pairs), alignments, strict=True):
        for role, target in targets(maps, links).items():
            weights = (getattr(maps, role[0]) * target).sum(-1)  # [layers, H, queries]
            found[role].append(weights[..., target.any(-1)])
    return {
        kind: {role: torch.cat(found[kind, role], dim=-1).mean(-1).cpu() for role in roles}
        for kind, roles in ROLES.items()
    }


def targets(
    maps: SentenceMaps, links: Collection[tuple[int, int]]
) -> dict[tuple[str, str], Tensor]:
    """Returns by (attention, role) which keys a query should look at: [queries, keys], boolean."""
    ones = torch.ones(maps.encoder.shape[-1] - 1, device=maps.cross.device)
    beginning, aligned = (
        torch.zeros_like(each[0, 0], dtype=torch.bool) for each in (maps.decoder, maps.cross)
    )
    beginning[:, 0] = True
    for source, target in links:
        aligned[target, source] = True
    return {
        ("encoder", "previous"): ones.diag(-1).bool(),
        ("encoder", "next"): ones.diag(1).bool(),
        ("decoder", "beginning"): beginning,
        ("cross", "aligned"): aligned,
    }


def head_roles(roles: Mapping[str, Tensor | np.ndarray], *, title: str) -> Picture:
    """Draws mean attention weights in per cent: a panel a role, a row a layer, a column a head.

    The picture's description names for each role the head with the largest weight.
    """
    words = []
    with rc_context(STYLE):
        figure, [axes] = panels(1, len(roles), 7.2 / max(3, len(roles)))
        for (role, values), axis in zip(roles.items(), axes, strict=True):
            array = matrix(role, values)
            axis.imshow(array, STRONG, vmin=0.0, vmax=1.0)
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
        figure.suptitle(f"{title} (% of the weight)", fontsize=10.5, weight="bold")
    return Picture(figure, f"{title}. Per cent of a query's weight. {'; '.join(words)}.")

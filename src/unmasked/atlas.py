"""What each attention head looks at, measured over many sentences."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from .sentence_maps import SentenceMaps, maps_of
from .translator import Translator
from .validation import invalid

ROLES = {
    "encoder": ("itself", "previous", "next", "end"),
    "decoder": ("itself", "previous", "beginning"),
    "cross": ("aligned", "after it", "end"),
}
Atlas = dict[str, dict[str, Tensor]]


def atlas(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    alignments: Sequence[Collection[tuple[int, int]]],
) -> Atlas:
    """For each kind of attention and each role the mean weight of every head: [layers, H].

    A role is a place to look at, such as the word before one's own. Queries that have no such
    place, as the first word has none before it, do not count. `alignments` holds (source,
    target) places of tokens that belong together.
    """
    if len(alignments) != len(pairs) or not pairs:
        got = f"{len(alignments)} for {len(pairs)}"
        raise invalid("alignments", "one for each pair, at least one", got, "align all pairs")
    sums: dict[tuple[str, str], Tensor] = {}
    queries: dict[tuple[str, str], int] = {}
    for maps, links in zip(maps_of(translator, pairs), alignments, strict=True):
        for role, target in targets(maps, links).items():
            counted = target.any(-1)  # the queries that have such a place
            weight = (getattr(maps, role[0]) * target).sum(-1)[..., counted].sum(-1)
            sums[role] = sums[role] + weight if role in sums else weight
            queries[role] = queries.get(role, 0) + int(counted.sum())
    return {
        kind: {role: sums[kind, role] / queries[kind, role] for role in roles}
        for kind, roles in ROLES.items()
    }


def targets(
    maps: SentenceMaps, links: Collection[tuple[int, int]]
) -> dict[tuple[str, str], Tensor]:
    """For each kind and role, which key is the place that is meant: [queries, keys], boolean."""
    device = maps.cross.device
    found: dict[tuple[str, str], Tensor] = {}
    for kind, weights in zip(SentenceMaps._fields, maps, strict=True):
        queries, keys = weights.shape[-2:]
        ones = torch.ones(queries, keys, dtype=torch.bool, device=device)
        diagonal = torch.eye(queries, keys, dtype=torch.bool, device=device)
        first, last = (torch.arange(keys, device=device) == place for place in (0, keys - 1))
        aligned = torch.zeros_like(ones)
        for source, target in links if kind == "cross" else ():
            aligned[target, source] = True
        places = {
            "itself": diagonal,
            "previous": diagonal.roll(-1, 1) & ~last,
            "next": diagonal.roll(1, 1) & ~first,
            "beginning": ones & first,
            "end": ones & last,
            "aligned": aligned,
            "after it": aligned.roll(1, 1) & ~first & ~aligned,
        }
        found |= {(kind, role): places[role] for role in ROLES[kind]}
    return found

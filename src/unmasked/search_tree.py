"""What beam search looked at: a tree of beginnings, some kept, some finished, most dropped."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from .ranking import penalty
from .search import check_beam, check_search, evaluating
from .special import BOS, EOS
from .stepping import without_padding
from .transformer import Transformer
from .validation import invalid, shape


@dataclass(eq=False)
class Node:
    """A token, after all those above it."""

    token: int
    total: float  # log-probability of the beginning that ends here
    time: int  # tokens so far
    parent: Node | None = None
    score: float | None = None  # of a finished sentence: total over the length penalty
    children: list[Node] = field(default_factory=list)  # those that were kept or finished

    def join(self) -> None:
        """Becomes a child of its parent: it was kept."""
        if self.parent:
            self.parent.children.append(self)

    def path(self) -> list[int]:
        """The tokens from the beginning to here, without the BOS."""
        return [*self.parent.path(), self.token] if self.parent else []


def beam_tree(
    model: Transformer,
    source: Tensor,
    beam_size: int = 4,
    max_new_tokens: int | None = None,
    *,
    length_penalty: float = 0.6,
) -> tuple[Node, Node]:
    """The tree that `search.beam` walks for one sentence [1, S], and its best finished node.

    Plain and slow: a list of nodes, and the whole model again at every step.
    """
    limits = check_search(model, source, max_new_tokens, BOS, EOS)
    check_beam(model, beam_size, 1, length_penalty)
    if len(source) != 1:
        raise invalid("source", "one sentence, [1, S]", shape(source), "take one row, source[:1]")
    limit = int(limits)
    root = Node(BOS, 0.0, 0)
    alive, finished = [root], list[Node]()
    while alive and not settled(alive, finished, limit, length_penalty):
        for node in alive:
            node.join()
        candidates = [child for node in alive for child in continuations(model, source, node)]
        candidates.sort(key=lambda node: -node.total)
        alive = []
        for rank, node in enumerate(candidates[: 2 * beam_size]):
            ends = node.token == EOS or node.time == limit
            if ends and rank < beam_size:
                node.score = node.total / penalty(node.time, length_penalty)
                finished.append(node)
                node.join()
            elif not ends and len(alive) < beam_size:
                alive.append(node)
    return root, max(finished, key=lambda node: node.score or 0.0)


def settled(alive: list[Node], finished: list[Node], limit: int, length_penalty: float) -> bool:
    """Whether nothing that is alive can become better than what is finished."""
    scores = [node.score for node in finished if node.score is not None]
    best_to_come = max(node.total for node in alive) / penalty(limit, length_penalty)
    return bool(scores) and max(scores) >= best_to_come


def continuations(model: Transformer, source: Tensor, node: Node) -> list[Node]:
    """Every token after this node."""
    target = torch.tensor([[BOS, *node.path()]], device=source.device)
    with evaluating(model):
        logits = without_padding(model(source, target)[:, -1])
        log_probabilities = logits.log_softmax(-1)[0].tolist()
    return [Node(token, node.total + value, node.time + 1, node)
            for token, value in enumerate(log_probabilities)]  # fmt: skip

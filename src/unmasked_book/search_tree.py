"""Builds and draws the tree of a beam search, in which each node adds a token (chapter 9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from torch import Tensor

from unmasked.plots.picture import COLOURS, GREY, INK, STYLE, Picture, panels
from unmasked.search import limits_of, penalty
from unmasked.tokens import BOS, EOS, PADDING
from unmasked.transformer import Transformer, evaluating

Continuations = Iterable[tuple[int, float]]  # tokens and their log-probabilities


@dataclass(eq=False)
class Node:
    """A Node adds one token to the unfinished sentence that the nodes above it spell."""

    token: int
    total: float  # log-probability of the beginning that ends here
    time: int  # tokens so far
    parent: Node | None = None
    score: float | None = None  # of a finished sentence: total over the length penalty
    children: list[Node] = field(default_factory=list)  # those that were kept or finished

    def join(self) -> None:
        """Adds this node to its parent's children, once the search keeps it."""
        if self.parent:
            self.parent.children.append(self)

    def path(self) -> list[int]:
        """Returns the tokens of the nodes from the root to this one, without the BOS."""
        return [node.token for node in self.line()[1:]]

    def line(self) -> list[Node]:
        """Returns the nodes from the root to this one."""
        return [*(self.parent.line() if self.parent else []), self]


def trace_beam(
    model: Transformer, source: Tensor, beam_size: int, *, length_penalty: float
) -> tuple[Node, Node]:
    """Returns the root of `search.beam`'s tree for a source [1, S], and the best sentence's node.

    Plain and slow: it runs the whole model again at every step.
    """

    def after(beginning: Sequence[int]) -> Continuations:
        return enumerate(log_probabilities(model, source, beginning).tolist())

    return grown(after, beam_size, int(limits_of(model, source, None)), length_penalty)


def grown(
    after: Callable[[Sequence[int]], Continuations], width: int, limit: int, length_penalty: float
) -> tuple[Node, Node]:
    """Returns a beam search's root and best leaf; `after` maps tokens to possible next tokens."""
    root = Node(BOS, 0.0, 0)
    alive, finished = [root], list[Node]()
    while alive and not settled(alive, finished, limit, length_penalty):
        for node in alive:
            node.join()
        candidates = [
            Node(token, node.total + value, node.time + 1, node)
            for node in alive
            for token, value in after(node.path())
        ]
        candidates.sort(key=lambda node: -node.total)
        alive = []
        for rank, node in enumerate(candidates[: 2 * width]):
            ends = node.token == EOS or node.time == limit
            if ends and rank < width:
                node.score = node.total / penalty(node.time, length_penalty)
                finished.append(node)
                node.join()
            elif not ends and len(alive) < width:
                alive.append(node)
    return root, max(finished, key=lambda node: node.score or 0.0)


def settled(alive: list[Node], finished: list[Node], limit: int, length_penalty: float) -> bool:
    """Returns True if no unfinished sentence can become better than the best finished one."""
    scores = [node.score for node in finished if node.score is not None]
    best_to_come = max(node.total for node in alive) / penalty(limit, length_penalty)
    return bool(scores) and max(scores) >= best_to_come


def log_probabilities(model: Transformer, source: Tensor, beginning: Sequence[int]) -> Tensor:
    """Returns every token's log-probability [V] of coming next after these target tokens."""
    target = torch.tensor([[BOS, *beginning]], device=source.device)
    with evaluating(model):
        logits = model(source, target)[0, -1]
        logits[PADDING] = -torch.inf  # never generated
        return logits.log_softmax(-1)


def nodes(root: Node) -> Iterator[Node]:
    yield root
    for child in root.children:
        yield from nodes(child)


def greedy_path(root: Node) -> list[Node]:
    """Returns nodes from the root to a leaf, each the likeliest child of the one before."""
    path = [root]
    while path[-1].children:
        path.append(max(path[-1].children, key=lambda node: node.total))
    return path


# --- Drawn ------------------------------------------------------------------------------------

WIN, GREEDY, KEPT = COLOURS[0], COLOURS[1], "#c3cad2"
BOLD: dict[str, Any] = {"color": WIN, "lw": 2.4, "zorder": 2}
HASTY: dict[str, Any] = {"color": GREEDY, "lw": 1.6, "ls": "--", "zorder": 2}
PLAIN: dict[str, Any] = {"color": KEPT, "lw": 1.2, "zorder": 1}


def plot_tree(root: Node, best: Node, vocabulary: Sequence[str]) -> Picture:
    """Draws a beam search's tree from left to right, a column a step, the likeliest token on top.

    The path to `best` is bold, and that of greedy search dashed, as far as beam search kept it.
    """
    steps: dict[int, list[Node]] = {}
    for node in nodes(root):
        steps.setdefault(node.time, []).append(node)
    for column in steps.values():
        column.sort(key=lambda node: -node.total)
    place = {node: (time, row) for time, column in steps.items() for row, node in enumerate(column)}
    winning, hasty = best.line(), greedy_path(root)
    rows = max(map(len, steps.values()))
    with rc_context(STYLE):
        figure, [[axis]] = panels(1, 1, 0.7 + 0.52 * rows)
        for node, (x, y) in place.items():
            box(axis, node, x, y, vocabulary[node.token], wins=node in winning)
            if node.parent:
                before_x, before_y = place[node.parent]
                line = BOLD if node in winning else HASTY if node in hasty else PLAIN
                axis.plot([before_x, x], [before_y, y], **line)
        axis.set(xlim=(-0.6, max(steps) + 0.6), ylim=(rows - 0.3, -0.6))
        axis.axis("off")
    finished = [node for node in place if node.score is not None]
    finished.sort(key=lambda node: -(node.score or 0.0))
    found = [f"{said(node, vocabulary)} with score {node.score:.2f}" for node in finished]
    return Picture(
        figure,
        f"A search as a tree of {len(place) - 1} beginnings over {max(steps)} steps. It finished "
        f"{'; '.join(found)}. The best is {said(best, vocabulary)}. Greedy search begins "
        f"{said(hasty[-1], vocabulary)}.",
    )


def box(axis: Axes, node: Node, x: float, y: float, word: str, *, wins: bool) -> None:
    """Draws a node's word in a box, angular if a sentence ends there, and its score below."""
    ended = node.score is not None
    corners = "square,pad=0.25" if ended else "round,pad=0.25"
    edge, width = (WIN, 1.6) if wins else (GREY if ended else KEPT, 1.4 if ended else 1.0)
    frame = {"boxstyle": corners, "fc": "white", "ec": edge, "lw": width}
    middle: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 3}
    axis.text(x, y, word, bbox=frame, color=INK if wins else GREY, fontsize=8.5, **middle)
    if node.parent:
        number = node.total if node.score is None else node.score
        axis.text(x, y + 0.42, f"{number:.2f}", color=GREY, fontsize=7, **middle)


def said(node: Node, vocabulary: Sequence[str]) -> str:
    return f"“{' '.join(vocabulary[token] for token in node.path())}”"

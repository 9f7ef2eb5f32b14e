"""The tree that is drawn is the search that is run."""

import pytest
import torch

from helpers import copier, ragged
from unmasked.search import beam
from unmasked.tokens import EOS
from unmasked_book.search_tree import Node, greedy_path, nodes, plot_tree, trace_beam

WORDS = ["<pad>", "<bos>", "<eos>", *"abcdefghi"]


def written(row):
    return [token for token in row.tolist() if token]


@pytest.mark.parametrize(("width", "alpha"), [(1, 0.0), (2, 0.6), (4, 0.0), (4, 2.0)])
def test_its_best_sentence_and_score_are_those_of_the_search(width, alpha):
    torch.manual_seed(0)
    for source in ragged([1, 3, 6, 7], 12):
        source = source[source != 0][None]
        for limit in (2, 9):
            _, best = trace_beam(copier(), source, width, limit, length_penalty=alpha)
            found = beam(copier(), source, width, limit, length_penalty=alpha)
            assert best.path() == written(found.tokens[0, 0])
            assert best.score == pytest.approx(found.scores[0, 0].item(), abs=1e-4)


def test_each_step_keeps_as_many_as_the_beam_is_wide_and_what_has_ended():
    root, best = trace_beam(copier(), torch.tensor([[4, 6, 5, 7]]), 3, 8)
    for time in range(1, best.time):
        column = [node for node in nodes(root) if node.time == time]
        assert len([node for node in column if node.token != EOS]) == 3
        assert all((node.score is not None) == (node.token == EOS) for node in column)
    for node in nodes(root):
        assert all(child.parent is node and child.total <= node.total for child in node.children)


def test_the_picture_names_what_was_finished_and_what_won():
    root, best = trace_beam(copier(), torch.tensor([[4, 6, 5]]), 2, 8)
    picture = plot_tree(root, best, WORDS)
    [axis] = picture.figure.axes
    count = sum(1 for _ in nodes(root)) - 1
    assert len(axis.lines) == count
    assert sum(line.get_linewidth() > 2 for line in axis.lines) == best.time
    assert not [line for line in axis.lines if line.get_linestyle() == "--"]  # greedy won
    assert f"“b d c <eos>” with score {best.score:.2f}" in picture.words


def test_where_greedy_search_leaves_the_winner_its_path_is_dashed():
    root = Node(1, 0.0, 0)
    hasty, best = Node(3, -0.5, 1, root), Node(4, -0.9, 1, root)
    root.children = [hasty, best]
    ends = [Node(EOS, total, 2, parent, total) for total, parent in ((-1.4, hasty), (-1.0, best))]
    hasty.children, best.children = [ends[0]], [ends[1]]
    assert greedy_path(root) == [root, hasty, ends[0]]
    picture = plot_tree(root, ends[1], WORDS)
    [axis] = picture.figure.axes
    assert sum(line.get_linestyle() == "--" for line in axis.lines) == 2
    assert "The best is “b <eos>”. Greedy search begins “a <eos>”." in picture.words

"""The tree that is drawn is the search that is run."""

import pytest
import torch

from helpers import copier, ragged
from unmasked.search import beam
from unmasked_book.search_tree import trace_beam


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

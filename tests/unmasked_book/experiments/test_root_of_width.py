"""Chapter 15's experiment: the models differ in what is compared, and in nothing else."""

import copy

from unmasked import MultiHeadAttention
from unmasked_book.examples import speller
from unmasked_book.experiments import root_of_width


def test_undivided_and_smaller_starts_are_only_that():
    model = speller(seed=0, d_model=16, n_heads=1).double().eval()
    source, target = root_of_width.spelling_corpus(8, seed=0).batch()
    kinds = (root_of_width.DIVIDED, root_of_width.UNDIVIDED, root_of_width.SMALLER)
    divided, undivided, smaller = (
        root_of_width.changed(copy.deepcopy(model), kind)(source, target) for kind in kinds
    )
    assert (divided - undivided).abs().max() > 1e-3
    assert (divided - smaller).abs().max() < 1e-12
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.query.weight.data *= 4  # √16
            part.query.bias.data *= 4
    assert (model(source, target) - undivided).abs().max() < 1e-12

"""Tests what a model lacks, and keeps, when parts are switched off."""

import pytest
import torch

from helpers import difference, small_model
from unmasked_book.ablation import PARTS, without

SOURCE, TARGET = torch.tensor([[5, 9, 3, 7, 2]]), torch.tensor([[1, 4, 8, 6]])
TOLD = {  # other inputs, which a model without the part takes for the same
    "encoder_positions": (SOURCE[:, [3, 0, 2, 1, 4]], TARGET),
    "cross": (SOURCE + 1, TARGET),
    "decoder_self": (SOURCE, torch.tensor([[7, 3, 9, 6]])),  # the same last token
}


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("part", PARTS)
@torch.no_grad()
def test_each_part_counts_and_the_model_stays_whole(norm, part):
    model = small_model(norm=norm, dropout=0.0)
    before, lacking = model(SOURCE, TARGET), without(model, part)
    assert torch.equal(without(model)(SOURCE, TARGET), before)
    assert difference(lacking(SOURCE, TARGET), before) > 1e-3
    assert torch.equal(model(SOURCE, TARGET), before)
    if others := TOLD.get(part):
        assert difference(lacking(SOURCE, TARGET)[:, -1], lacking(*others)[:, -1]) < 1e-12
        assert difference(before[:, -1], model(*others)[:, -1]) > 1e-5

"""Parts switched off: what is gone, and what stays."""

import pytest
import torch

from helpers import difference, small_model
from unmasked_book.ablation import PARTS, without

SOURCE, TARGET = torch.tensor([[5, 9, 3, 7, 2]]), torch.tensor([[1, 4, 8, 6]])
ORDER = torch.tensor([3, 0, 2, 1, 4])


@pytest.fixture(params=["pre", "post"])
def model(request: pytest.FixtureRequest):
    torch.manual_seed(0)
    return small_model(norm=request.param, dropout=0.0)


def said(model, source=SOURCE, target=TARGET):
    with torch.no_grad():
        return model(source, target)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_counts_and_the_model_stays_whole(model, part):
    before = said(model)
    assert difference(said(without(model)), before) == 0
    assert difference(said(without(model, part)), before) > 1e-3
    assert difference(said(model), before) == 0


@pytest.mark.parametrize(
    ("part", "source", "target"),
    [
        ("encoder_positions", SOURCE[:, ORDER], TARGET),
        ("cross", SOURCE + 1, TARGET),
        ("decoder_self", SOURCE, torch.tensor([[7, 3, 9, 6]])),  # the same last token
    ],
)
def test_what_a_part_tells_is_lost_without_it(model, part, source, target):
    lacking = without(model, part)
    assert difference(said(lacking)[:, -1], said(lacking, source, target)[:, -1]) < 1e-12
    assert difference(said(model)[:, -1], said(model, source, target)[:, -1]) > 1e-5

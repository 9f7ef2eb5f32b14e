"""The fast steps compute what the modules compute."""

import pytest
import torch

from helpers import difference, ragged, small_model
from unmasked.fast.steps import (
    CrossAttention,
    FastSteps,
    FoldedCrossAttention,
    Past,
)
from unmasked.masks import padding_mask

LENGTHS = [7, 4, 1, 6, 2]


@pytest.mark.parametrize("lengths", [LENGTHS, [5]])
def test_positions_beyond_the_table_are_computed(lengths):
    model, source = small_model(max_len=7), ragged(lengths)
    tokens, steps = torch.randint(3, 9, (len(source), 1)), FastSteps(model, source, 1, 9)
    found = []
    for steps.time in range(9):
        x = steps.embed(tokens.flatten() if len(source) > 1 else tokens.view(()))
        expected = model.target_embedding(tokens, steps.time)[:, 0]
        assert difference(x.view(len(source), -1), expected) < 1e-12
        found.append(x)
    assert len(steps.positions) == 7
    assert not torch.equal(found[7], found[8])


def test_the_past_grows_when_its_room_is_used_up():
    past, pieces = Past(2), torch.randn(5, 2, 3, 4, 1, 6)
    for piece in pieces:
        keys, values = past.append(piece)
    assert torch.equal(keys, pieces[:, 0].permute(1, 2, 0, 3, 4)[:, :, :, 0])
    assert torch.equal(values, pieces[:, 1].permute(1, 2, 0, 3, 4)[:, :, :, 0])
    past.keep(torch.tensor([True, False, True]))
    kept, _ = past.append(pieces[0][:, [0, 2]])
    assert torch.equal(kept[:, :, :5], keys[[0, 2]])


def test_cross_attention_is_folded_for_one_short_sentence():
    def kinds(model, source):
        return {type(layer.across) for layer in FastSteps(model, source, 2, 5).layers}

    model = small_model()  # 16 wide, with 4 heads
    assert kinds(model, ragged([8])) == {FoldedCrossAttention}
    assert kinds(model, ragged([9])) == {CrossAttention}
    assert kinds(model, ragged([4, 4])) == {CrossAttention}
    assert kinds(model.bfloat16(), ragged([4])) == {CrossAttention}


def test_no_mask_where_there_is_no_padding():
    def mask(source):
        return FastSteps(small_model(), source, 1, 5).layers[0].across.mask

    assert mask(ragged([4, 4])) is None
    source = ragged([4, 3])
    assert torch.equal(mask(source) == 0, padding_mask(source))
    assert mask(source)[1, 0, 0, 3] == -torch.inf

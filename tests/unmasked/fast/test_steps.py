"""The fast steps compute what the modules compute."""

import pytest
import torch
from torch.nn import functional as F

from helpers import MODELS, difference, ragged, small_model
from unmasked.fast.steps import (
    CrossAttention,
    FastSteps,
    FoldedCrossAttention,
    Past,
    added,
    attend,
    take,
)
from unmasked.masks import padding_mask
from unmasked.tokens import BOS, PADDING

LENGTHS = [7, 4, 1, 6, 2]


@pytest.mark.parametrize("preset", MODELS)
@pytest.mark.parametrize("lengths", [LENGTHS, [5]])
def test_the_steps_compute_what_the_decoder_computes(preset, lengths):
    """Of several sentences, and of one, whose cross-attention is folded."""
    model = small_model(preset, output_bias=True)
    source = F.pad(ragged(lengths), (0, 2), value=PADDING)
    mask, state = padding_mask(source), model.start()
    with torch.no_grad():
        memory, steps = model.encode(source), FastSteps(model, source, 1, 5)
        for time in range(3):
            tokens = torch.randint(3, 9, (len(source), 1))
            x = model.target_embedding(tokens, time)
            expected = model.generator(model.decoder(x, memory, memory_mask=mask, state=state))
            logits = steps.step(tokens, torch.zeros_like(tokens))
            assert difference(logits[..., 1:], expected[..., 1:]) < 1e-12
            assert (logits[..., PADDING] == -torch.inf).all()


@pytest.mark.parametrize("lengths", [LENGTHS, [5]])
def test_positions_beyond_the_table_are_computed(lengths):
    model, source = small_model(max_len=7), ragged(lengths)
    tokens, steps = torch.randint(3, 9, (len(source), 1)), FastSteps(model, source, 1, 9)
    found = []
    for steps.time in range(9):
        x = steps.embed(tokens.flatten() if len(source) > 1 else tokens.view(()))
        assert (
            difference(x.view(len(source), -1), model.target_embedding(tokens, steps.time)[:, 0])
            < 1e-12
        )
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


def test_attention_of_a_step_is_the_kernels():
    for batch, width in ((3, 1), (1, 1), (3, 4)):
        query, key, value = (torch.randn(batch, 2, n, 5) for n in (width, 6, 6))
        hidden = torch.arange(6) < torch.randint(1, 6, (batch, 1, 1, 1))
        for mask in (None, added(hidden, query.dtype)):
            expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
            assert difference(attend(query, key, value, mask), expected) < 1e-6


def test_the_cache_is_never_reordered():
    """Hypotheses change places in every step; their keys stay where they were written."""
    model, source = small_model(), ragged([4])
    stepper = FastSteps(model, source, 3, 5)
    tokens = torch.full((1, 3), BOS)
    with torch.no_grad():
        stepper.step(tokens, torch.tensor([[0, 0, 0]]))
        first = stepper.layers[0].past.both.narrow(3, 0, 3).clone()
        stepper.step(torch.tensor([[5, 6, 7]]), torch.tensor([[2, 0, 0]]))
        stepper.step(torch.tensor([[8, 9, 4]]), torch.tensor([[1, 1, 0]]))
    assert torch.equal(stepper.layers[0].past.both.narrow(3, 0, 3), first)
    expected = [  # columns: three at the first step, three at the second, three at the third
        [1, 0, 0, 0, 1, 0, 1, 0, 0],
        [1, 0, 0, 0, 1, 0, 0, 1, 0],
        [0, 0, 1, 1, 0, 0, 0, 0, 1],
    ]
    assert stepper.ancestors[0].int().tolist() == expected


def test_no_mask_where_there_is_no_padding():
    def mask(source):
        return FastSteps(small_model(), source, 1, 5).layers[0].across.mask

    assert mask(ragged([4, 4])) is None
    source = ragged([4, 3])
    assert torch.equal(mask(source) == 0, padding_mask(source))
    assert mask(source)[1, 0, 0, 3] == -torch.inf


def test_rows_are_taken_sentence_by_sentence():
    x = torch.tensor([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
    index = torch.tensor([[1, 1, 0], [0, 1, 0]])
    expected = [[[3, 4], [3, 4], [1, 2]], [[5, 6], [7, 8], [5, 6]]]
    assert take(x, index).tolist() == expected

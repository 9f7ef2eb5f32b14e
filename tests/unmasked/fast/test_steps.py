"""The fast steps compute what the modules compute."""

import pytest
import torch
from torch.nn import functional as F

from helpers import MODELS, difference, ragged, small_model
from unmasked.config import BOS
from unmasked.fast.steps import FastSteps, StepDecoder, added, attend, take
from unmasked.masks import padding_mask

LENGTHS = [7, 4, 1, 6, 2]


@pytest.mark.parametrize("preset", MODELS)
def test_the_step_decoder_computes_what_the_decoder_computes(preset):
    model = small_model(preset, output_bias=True)
    source = ragged(LENGTHS)
    mask, memory = padding_mask(source), model.encode(source)
    steps = StepDecoder(model, rows=5)
    plain, fast = model.start(), model.start()
    with torch.no_grad():
        steps.remember(memory, fast)
        for _ in range(3):
            x = torch.randn(5, 1, 16).double()
            expected = model.decoder(x, memory, memory_mask=mask, state=plain)
            found = steps(x, None, added(mask, x.dtype), fast)
            assert difference(found, model.generator(expected)) < 1e-12


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
        first = stepper.state.layers[0].past.read()[0].clone()
        stepper.step(torch.tensor([[5, 6, 7]]), torch.tensor([[2, 0, 0]]))
        stepper.step(torch.tensor([[8, 9, 4]]), torch.tensor([[1, 1, 0]]))
    assert torch.equal(stepper.state.layers[0].past.read()[0][:, :, :3], first)
    expected = [  # columns: three at the first step, three at the second, three at the third
        [1, 0, 0, 0, 1, 0, 1, 0, 0],
        [1, 0, 0, 0, 1, 0, 0, 1, 0],
        [0, 0, 1, 1, 0, 0, 0, 0, 1],
    ]
    assert stepper.ancestors[0].int().tolist() == expected


def test_no_mask_where_there_is_no_padding():
    model = small_model()
    assert FastSteps(model, ragged([4, 4]), 1, 5).mask is None
    source = ragged([4, 3])
    mask = FastSteps(model, source, 1, 5).mask
    assert torch.equal(mask == 0, padding_mask(source))
    assert mask[1, 0, 0, 3] == -torch.inf


def test_rows_are_taken_sentence_by_sentence():
    x = torch.tensor([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
    index = torch.tensor([[1, 1, 0], [0, 1, 0]])
    expected = [[[3, 4], [3, 4], [1, 2]], [[5, 6], [7, 8], [5, 6]]]
    assert take(x, index).tolist() == expected

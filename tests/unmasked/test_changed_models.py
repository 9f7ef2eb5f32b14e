"""A model that a reader has changed is never passed by in silence, and its mistakes are named."""

from functools import partial

import pytest
import torch

from helpers import as_target, put, ragged, small_model
from unmasked import MultiHeadAttention, Transformer
from unmasked.fast.steps import FastSteps
from unmasked.loss import translation_loss
from unmasked.search import beam, greedy, sample
from unmasked.tokens import EOS

SOURCE, TARGET = ragged([5, 3, 1]), as_target(ragged([4, 2, 3]))


def test_fast_steps_are_finite_in_float16_where_the_core_is():
    model, zeros = small_model().half(), torch.zeros(3, 1, dtype=torch.long)
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.query.weight.data = part.key.weight.data = 200 * torch.eye(16).half()
    with torch.no_grad():
        logits = FastSteps(model, SOURCE, 1, 5).step(zeros + 7, zeros)
    assert logits[..., 1:].isfinite().all()


def louder(self, *given, **options):
    return 5 * Transformer.forward(self, *given, **options)


OWN_FORWARD = {
    "subclass": put("", __class__=type("Own", (Transformer,), {"forward": louder})),
    "instance": lambda model: put("", forward=partial(louder, model))(model),
    "hook": lambda model: model.register_forward_hook(lambda _, __, x: 5 * x),
}


@pytest.mark.parametrize("change", OWN_FORWARD.values(), ids=OWN_FORWARD)
def test_loss_and_search_refuse_a_model_whose_own_forward_they_would_not_call(change):
    model = small_model()
    change(model)
    for call in (
        lambda: translation_loss(model, SOURCE, TARGET),
        lambda: translation_loss(model, SOURCE, TARGET, packed=True),
        lambda: greedy(model, SOURCE, 3),
        lambda: beam(model, SOURCE, 2, 3),
        lambda: sample(model, SOURCE, 3),
    ):
        with pytest.raises(ValueError, match=r"(?=.*encode)(?=.*decode)(?=.*generator)"):
            call()


def test_an_attention_that_ignores_the_cache_is_told_to_search_without():
    class Forgetful(MultiHeadAttention):
        def forward(self, query, **options):
            return super().forward(query, **options | {"cache": None})

    model = small_model(output_bias=True)
    model.decoder.layers[0].self_attention = Forgetful(16, 4).double()
    model.generator.bias.data[EOS] = -1e6  # it goes on
    greedy(model, SOURCE, 4, use_cache=False)
    with pytest.raises((RuntimeError, ValueError), match="use_cache=False"):
        greedy(model, SOURCE, 4)

"""A model that a reader has changed is never passed by in silence, and its mistakes are named."""

from functools import partial

import pytest
import torch

from helpers import as_target, difference, ragged, small_model
from unmasked import MultiHeadAttention, Transformer
from unmasked.fast.steps import FastSteps
from unmasked.loss import translation_loss
from unmasked.masks import padding_mask
from unmasked.search import beam, greedy, sample
from unmasked.tokens import EOS

SOURCE, TARGET = ragged([5, 3, 1]), as_target(ragged([4, 2, 3]))
SHORT = {"source_mask": padding_mask(SOURCE)[..., :-1]}
EVEN = ragged([3, 3, 3, 3])  # as many sentences as a model has heads
READ = padding_mask(EVEN)
ENCODE, DECODE = Transformer.encode, Transformer.decode


def test_fast_steps_are_finite_in_float16_where_the_core_is():
    model, zeros = small_model().half(), torch.zeros(3, 1, dtype=torch.long)
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.query.weight.data = part.key.weight.data = 200 * torch.eye(16).half()
    with torch.no_grad():
        logits = FastSteps(model, SOURCE, 1, 5).step(zeros + 7, zeros)
    assert logits[..., 1:].isfinite().all()


def changed(change):
    model = small_model()
    change(model)
    return model


def own(**methods):
    """A model of a class that a reader wrote."""
    return changed(lambda m: setattr(m, "__class__", type("Own", (Transformer,), methods)))


def louder(self, *given, **options):
    return 5 * Transformer.forward(self, *given, **options)


OWN_FORWARD = {
    "subclass": lambda: own(forward=louder),
    "instance": lambda: changed(lambda m: setattr(m, "forward", partial(louder, m))),
    "hook": lambda: changed(lambda m: m.register_forward_hook(lambda _, __, x: 5 * x)),
}
DOORS = {
    "loss": lambda model: translation_loss(model, SOURCE, TARGET),
    "packed": lambda model: translation_loss(model, SOURCE, TARGET, packed=True),
    "greedy": lambda model: greedy(model, SOURCE, 3),
    "beam": lambda model: beam(model, SOURCE, 2, 3),
    "sample": lambda model: sample(model, SOURCE, 3),
}


@pytest.mark.parametrize("make", OWN_FORWARD.values(), ids=OWN_FORWARD)
def test_loss_and_search_refuse_a_model_whose_own_forward_they_would_not_call(make):
    for door in DOORS.values():
        with pytest.raises(ValueError, match=r"(?=.*encode)(?=.*decode)(?=.*generator)"):
            door(make())


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"encode": lambda *given, **_: ENCODE(*given, **SHORT)},
         "source_mask: expected a shape that broadcasts"),
        ({"decode": lambda *given, **o: DECODE(*given, **o | {"source_mask": None})},
         "source_mask: expected a boolean tensor, got None"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_readers_own_module_is_named_inside_a_model_too(methods, message):
    for door in (lambda m: m(SOURCE, TARGET), DOORS["greedy"]):
        with pytest.raises(ValueError, match=f"^{message}"):
            door(own(**methods))


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


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("target_mask", lambda m, x: m(EVEN, EVEN, target_mask=x)),
        ("source_mask", lambda m, x: m.encode(EVEN, source_mask=x)),
        ("target_mask",
         lambda m, x: m.decode(EVEN, m.encode(EVEN), source_mask=READ, target_mask=x)),
        ("mask", lambda m, x: m.encoder.layers[0].self_attention(m.encode(EVEN), mask=x)),
    ],
)  # fmt: skip
def test_a_mask_for_each_sentence_is_not_taken_for_one_of_each_head(argument, call):
    model, mask = small_model(), torch.rand(4, 1, 3, 3) < 0.6
    assert call(model, mask).shape[:2] == (4, 3)
    assert difference(call(model, mask[0]), call(model, mask[:1])) < 1e-12
    with pytest.raises(ValueError, match=rf"^{argument}: expected .*\[4, 3, 3\]"):
        call(model, mask[:, 0])

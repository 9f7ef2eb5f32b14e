"""What is measured inside a model: compared with the model itself, computed another way."""

import math
from contextlib import nullcontext
from itertools import pairwise

import pytest
import torch

import unmasked
from unmasked.evaluation import maps_of_pairs
from unmasked_book.ablation import attentions
from unmasked_book.captions import caption_pairs
from unmasked_book.inside import (
    angle,
    batch_of,
    corrections,
    lens,
    other_weights,
    stream_parts,
    value_lengths,
)


@pytest.fixture(scope="module")
def translator():
    return unmasked.load("en-de")


@pytest.fixture(scope="module")
def pairs(translator):
    return caption_pairs(translator)[:6]


# --- Sentences --------------------------------------------------------------------------------


# --- The stream -------------------------------------------------------------------------------


def test_corrections_add_up_layer_by_layer(translator, pairs):
    model, read = translator.model, batch_of(translator, pairs)
    found = corrections(translator, pairs, "encoder")
    assert [c.name for c in found[:3]] == ["embedding", "1 self-attention", "1 feed-forward"]
    assert len(found) == 1 + 2 * 4
    assert len(corrections(translator, pairs, "decoder")) == 1 + 3 * 4
    x, real = model.source_embedding(read.source), read.source != 0
    lengths = [x[real].norm(dim=-1).mean().item()]
    for layer in model.encoder.layers:
        x = layer(x, mask=real[:, None, None, :])
        lengths.append(x[real].norm(dim=-1).mean().item())
    assert [each.length for each in found[::2]] == pytest.approx(lengths, rel=1e-4)
    for before, after in pairwise(found):
        assert abs(after.length - before.length) <= after.added + 1e-4


def test_a_correction_turns_the_stream_from_before_it_to_after_it(translator, pairs):
    """For one token alone by the law of cosines: there, a mean is the value itself."""
    read = batch_of(translator, pairs)
    parts = stream_parts(translator.model, read.source, read.inputs, "encoder")
    before, added = (part for _, part in parts[:2])
    a, b, c = (x[0, 0].norm().item() for x in (before, added, before + added))
    expected = math.degrees(math.acos((a**2 + c**2 - b**2) / (2 * a * c)))
    one = torch.zeros_like(read.source, dtype=torch.bool)
    one[0, 0] = True
    assert angle(before, before + added, one) == pytest.approx(expected, abs=0.01)
    _, first, *_ = corrections(translator, pairs, "encoder")
    real = read.source != 0
    assert first.turned == pytest.approx(angle(before, before + added, real), abs=0.01)


# --- Guesses on the way up --------------------------------------------------------------------


def test_the_last_guess_is_the_models_and_the_first_what_it_read(translator, pairs):
    logits, read = lens(translator, pairs)
    with torch.no_grad():
        expected = translator.model(read.source, read.inputs)
    real = read.labels != 0
    assert torch.allclose(logits[-1][real], expected[real], atol=1e-4)
    assert (logits[0].argmax(-1) == read.inputs)[real].all()  # one table for in and out


# --- Other weights ----------------------------------------------------------------------------


def seen(translator, pairs, how=None, layer=0, **options):
    """The maps of cross-attention, under other weights in one layer."""
    changed = other_weights(translator.model, layer, how, **options) if how else nullcontext()
    with changed:
        return [maps.cross for maps in maps_of_pairs(translator, pairs)]


def test_other_weights_are_the_same_elsewhere_or_even(translator, pairs):
    [before] = seen(translator, pairs[:1])
    [mixed] = seen(translator, pairs[:1], "shuffled", 2)
    [even] = seen(translator, pairs[:1], "even", 2)
    assert torch.equal(before[:2], mixed[:2])  # the layers below do not change
    assert not torch.allclose(before[2], mixed[2], atol=0.05)
    assert torch.allclose(before[2].sort(-1).values, mixed[2].sort(-1).values, atol=1e-5)
    assert torch.allclose(even[2], torch.tensor(1 / even.shape[-1]), atol=1e-6)
    assert torch.equal(before, seen(translator, pairs[:1])[0])  # the hooks are gone


def test_other_weights_of_one_head_leave_the_others_alone(translator, pairs):
    [before] = seen(translator, pairs[:1])
    [after] = seen(translator, pairs[:1], "even", 1, head=2)
    assert torch.allclose(before[1, [0, 1, 3]], after[1, [0, 1, 3]], atol=1e-6)
    assert not torch.allclose(before[1, 2], after[1, 2], atol=0.05)


# --- Sinks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "place"), [("encoder", -1), ("decoder", 0), ("cross", -1)])
def test_values_are_as_long_as_they_are(translator, pairs, kind, place):
    found = value_lengths(translator, pairs[:1], kind, place)
    assert found.shape == (4, 4)
    heard, read = [], batch_of(translator, pairs[:1])
    value = attentions(translator.model)[kind, 1].value
    hook = value.register_forward_hook(lambda _m, _x, out: heard.append(out[0]))
    with torch.no_grad():
        translator.model(read.source, read.inputs)
    hook.remove()
    values = heard[0].unflatten(-1, (4, -1)).norm(dim=-1)  # [tokens, H]
    assert torch.allclose(found[1], values[place] / values.mean(0), atol=1e-4)

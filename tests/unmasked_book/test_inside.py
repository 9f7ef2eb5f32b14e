"""What is measured inside a model: compared with the model itself, computed another way."""

import math
from itertools import pairwise

import pytest
import torch

import unmasked
from unmasked.evaluation import maps_of_pairs
from unmasked.plots.picture import Picture
from unmasked_book.ablation import attentions
from unmasked_book.captions import CAPTIONS, caption_pairs
from unmasked_book.inside import (
    angle,
    batch_of,
    caption_links,
    corrections,
    lens,
    lens_picture,
    other_weights,
    sink_picture,
    stream_parts,
    stream_picture,
    value_lengths,
)

SOME = 6


@pytest.fixture(scope="module")
def translator():
    return unmasked.load("en-de")


@pytest.fixture(scope="module")
def pairs(translator):
    return caption_pairs(translator)[:SOME]


# --- Sentences --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "first"), [("de-en", "german"), ("en-de", "english")])
def test_captions_and_their_links_are_in_the_models_direction(name, first):
    translator = unmasked.load(name)
    for (source, target), links, caption in zip(
        caption_pairs(translator), caption_links(translator), CAPTIONS, strict=True
    ):
        assert source == getattr(caption, first)
        sizes = [len(translator.source.pieces(text)) for text in (source, target)]
        assert links
        assert all(s < sizes[0] and t < sizes[1] for s, t in links)


# --- The stream -------------------------------------------------------------------------------


def test_corrections_add_up_layer_by_layer(translator, pairs):
    model, read = translator.model, batch_of(translator, pairs)
    found = corrections(translator, pairs, "encoder")
    assert [c.name for c in found[:3]] == ["embedding", "1 self-attention", "1 feed-forward"]
    assert len(found) == 1 + 2 * 4
    assert len(corrections(translator, pairs, "decoder")) == 1 + 3 * 4
    x, real = model.source_embedding(read.source), read.source != 0
    assert found[0].length == pytest.approx(x[real].norm(dim=-1).mean().item(), rel=1e-4)
    mask = real[:, None, None, :]
    for layer, after in zip(model.encoder.layers, found[2::2], strict=True):
        y = layer(x, mask=mask)
        assert after.length == pytest.approx(y[real].norm(dim=-1).mean().item(), rel=1e-4)
        x = y
    for before, after in pairwise(found):
        assert abs(after.length - before.length) <= after.added + 1e-4


def test_the_turn_fits_the_three_lengths(translator, pairs):
    """The law of cosines, for one token alone, where a mean is the value itself."""
    model, read = translator.model, batch_of(translator, pairs)
    parts = stream_parts(model, read.source[:1], read.inputs[:1], "encoder")
    before, added = (part[0, :1] for _, part in parts[:2])
    a, b, c = (x.norm().item() for x in (before, added, before + added))
    expected = math.degrees(math.acos((a**2 + c**2 - b**2) / (2 * a * c)))
    found = angle(before, before + added, torch.tensor([True]))
    assert found == pytest.approx(expected, abs=0.01)


def test_a_correction_turns_the_stream_from_before_it_to_after_it(translator, pairs):
    model, read = translator.model, batch_of(translator, pairs)
    parts = [part for _, part in stream_parts(model, read.source, read.inputs, "encoder")]
    before, after, real = parts[0], parts[0] + parts[1], read.source != 0
    embedding, first, *_ = corrections(translator, pairs, "encoder")
    assert embedding.turned == 0.0
    assert first.turned == pytest.approx(angle(before, after, real), abs=0.01)


def test_a_side_is_one_of_two(translator, pairs):
    with pytest.raises(ValueError, match=r"^side: expected "):
        corrections(translator, pairs, "middle")


def test_the_streams_picture_says_its_numbers(translator, pairs):
    picture = stream_picture(translator, pairs, "encoder")
    found = corrections(translator, pairs, "encoder")
    assert isinstance(picture, Picture)
    last = found[-1]
    said = f"{last.length:.0f}, {last.added:.0f} added, turned {last.turned:.0f}°"
    assert f"4 feed-forward: {said}" in picture.words
    axis, angles = picture.figure.axes
    streams, added = axis.containers
    [turns] = angles.containers
    assert [bar.get_width() for bar in turns] == [each.turned for each in found[1:]]
    assert [text.get_text() for text in angles.texts] == [f"{c.turned:.0f}°" for c in found[1:]]
    assert axis.get_subplotspec().get_gridspec().get_width_ratios() == [2.2, 1.0]
    assert [bar.get_width() for bar in streams] == [each.length for each in found]
    assert [bar.get_width() for bar in added] == [each.added for each in found[1:]]
    assert [label.get_text() for label in axis.get_yticklabels()] == [each.name for each in found]
    assert f"mean over {SOME} captions" in picture.words


# --- Guesses on the way up --------------------------------------------------------------------


def test_the_last_guess_is_the_models_and_the_first_what_it_read(translator, pairs):
    logits, read = lens(translator, pairs)
    with torch.no_grad():
        expected = translator.model(read.source, read.inputs)
    real = read.labels != 0
    assert logits.shape[0] == 5
    assert torch.allclose(logits[-1][real], expected[real], atol=1e-4)
    assert (logits[0].argmax(-1) == read.inputs)[real].all()  # one table for in and out


def test_the_picture_of_guesses_names_the_last_ones(translator, pairs):
    picture = lens_picture(translator, *pairs[0])
    logits, read = lens(translator, pairs[:1])
    said = [translator.target.words[i].strip("▁") for i in logits[-1, 0].argmax(-1)]
    assert f"after layer 4: {' '.join(said)}" in picture.words
    assert "after embedding: <bos> " in picture.words
    right = (logits[:, 0].argmax(-1) == read.labels[0]).sum(-1).tolist()
    assert right[-1] > 0
    assert picture.words.endswith(f"{right[-1]} of {len(said)}.")
    frames = picture.figure.axes[0].patches
    assert len(frames) == sum(right)


def test_the_hooks_are_gone_afterwards(translator, pairs):
    lens(translator, pairs)
    corrections(translator, pairs, "decoder")
    value_lengths(translator, pairs, "cross", -1)
    with other_weights(translator.model, 0, "even"):
        pass
    for module in translator.model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


# --- Other weights ----------------------------------------------------------------------------


def test_other_weights_are_the_same_elsewhere_or_even(translator, pairs):
    [before] = maps_of_pairs(translator, pairs[:1])
    with other_weights(translator.model, 2, "shuffled"):
        [mixed] = maps_of_pairs(translator, pairs[:1])
    with other_weights(translator.model, 2, "even"):
        [even] = maps_of_pairs(translator, pairs[:1])
    assert torch.equal(before.cross[:2], mixed.cross[:2])  # the layers below do not change
    assert not torch.allclose(before.cross[2], mixed.cross[2], atol=0.05)
    assert torch.allclose(
        before.cross[2].sort(-1).values, mixed.cross[2].sort(-1).values, atol=1e-5
    )
    assert torch.allclose(even.cross[2], torch.tensor(1 / even.cross.shape[-1]), atol=1e-6)
    [after] = maps_of_pairs(translator, pairs[:1])
    assert torch.equal(before.cross, after.cross)


def test_shuffling_stays_inside_each_sentence_and_repeats_with_its_seed(translator, pairs):
    def seen(seed):
        with other_weights(translator.model, 0, "shuffled", seed):
            return [maps.cross[0] for maps in maps_of_pairs(translator, pairs)]

    first, again, other = seen(0), seen(0), seen(1)
    assert all(map(torch.equal, first, again))
    assert not all(map(torch.equal, first, other))
    for maps in first:  # nothing fell on padding
        assert torch.allclose(maps.sum(-1), torch.ones(()), atol=1e-4)


@pytest.mark.parametrize("how", ["shuffled", "even"])
def test_other_weights_of_one_head_leave_the_others_alone(translator, pairs, how):
    [before] = maps_of_pairs(translator, pairs[:1])
    with other_weights(translator.model, 1, how, head=2):
        [after] = maps_of_pairs(translator, pairs[:1])
    assert torch.allclose(before.cross[1, [0, 1, 3]], after.cross[1, [0, 1, 3]], atol=1e-6)
    assert not torch.allclose(before.cross[1, 2], after.cross[1, 2], atol=0.05)


def test_how_is_one_of_two(translator):
    with (
        pytest.raises(ValueError, match=r"^how: expected "),
        other_weights(translator.model, 0, "upside down"),
    ):
        pass


# --- Sinks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "place"), [("encoder", -1), ("decoder", 0), ("cross", -1)])
def test_values_are_as_long_as_they_are(translator, pairs, kind, place):
    alone = pairs[:1]
    found = value_lengths(translator, alone, kind, place)
    assert found.shape == (4, 4)
    heard = []
    module = attentions(translator.model)[kind, 1]
    hook = module.value.register_forward_hook(lambda _m, _x, out: heard.append(out[0]))
    read = batch_of(translator, alone)
    with torch.no_grad():
        translator.model(read.source, read.inputs)
    hook.remove()
    values = heard[0].unflatten(-1, (4, -1)).norm(dim=-1)  # [tokens, H]
    assert torch.allclose(found[1], values[place] / values.mean(0), atol=1e-4)


def test_the_picture_of_sinks_has_a_point_for_each_head():
    weights, lengths = torch.rand(2, 3, 4).unbind()
    picture = sink_picture(weights, lengths, named=[(0, 1), (2, 3)])
    [axis] = picture.figure.axes
    *lines, mean = axis.lines
    assert set(mean.get_xdata()) == {1}
    for row, (line, xs, ys) in enumerate(zip(lines, lengths, weights, strict=True), 1):
        assert line.get_label() == f"layer {row}"
        assert torch.allclose(torch.tensor(line.get_xydata()).T.float(), torch.stack([xs, ys]))
    assert [text.get_text() for text in axis.texts] == ["layer 1, head 2", "layer 3, head 4"]
    assert f"3.4: {lengths[2, 3]:.2f}, {weights[2, 3]:.2f}." in picture.words

"""Tests the recipe, the schedules, updates, averages, and the loop around them."""

import math
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import pytest
import torch

from helpers import difference, same_tensors
from helpers.refusals import refusals
from helpers.small_training import RECIPE, quiet, small, small_corpus
from unmasked.loss import translation_loss
from unmasked.storage.weights import tensors_of
from unmasked.text.corpus import Corpus, StreamedCorpus
from unmasked.tokens import BOS, EOS, Words
from unmasked.training.processes import Processes
from unmasked.training.recipe import Recipe, rate_at
from unmasked.training.trainer import CHECKPOINT, Trainer, read_checkpoint

ALONE = Processes(0, 1, torch.device("cpu"))
NO_AVERAGE = replace(RECIPE, average=None)


def exact():
    return small(dropout=0.0).double()


def copies(model):
    return {name: x.clone() for name, x in tensors_of(model).items()}


def meddle(model):
    translation_loss(model.train(), *small_corpus().batch(small_corpus().pairs[:2])).backward()


def furthest(a, b):
    return max(difference(a[name], b[name]) for name in a)


# --- The recipe -------------------------------------------------------------------------------


test_a_recipe_that_cannot_work_is_refused = refusals(
    (lambda: Recipe(steps=10**9 + 1), "steps: expected at most 1,000,000,000, got"),
    (lambda: Recipe(accumulate=10**5 + 1), "accumulate: expected at most 100,000, got 100001"),
    (lambda: Recipe(warmup=0), "warmup: expected a whole number of at least 1, got 0"),
    (lambda: Recipe(schedule="cosine"), "schedule: expected 'trapezoid' or 'paper', got"),
    (lambda: Recipe(beta2=1.0), "beta2: expected a number"),
    (lambda: rate_at(0, Recipe(), 8), "step: expected a whole number of at least 1, got 0"),
    (lambda: Recipe(rate=None), "rate: expected a number for the trapezoid, got None"),
    (lambda: Recipe(clip=0.0), "clip: expected a number from 1e-09 to 1e.09, got 0.0"),
)
test_what_cannot_be_trained_is_refused = refusals(
    (lambda: quiet(small(), replace(RECIPE, patience=1), watch=lambda *_: {"other": 1.0}),
     "patience: expected a validation loss, got none"),
    (lambda: quiet(small(), watch=lambda *_: {"loss": 7.0}), "watch: expected .*, got loss"),
)  # fmt: skip


def test_the_papers_schedule_is_equation_3_also_with_a_rate_of_ones_own():
    recipe = Recipe(schedule="paper", rate=None, warmup=7)
    for step in [*range(1, 20), 100_000]:
        expected = 64**-0.5 * min(step**-0.5, step * 7**-1.5)
        assert rate_at(step, recipe, 64) == pytest.approx(expected, rel=1e-12)
    own = Recipe(schedule="paper", rate=0.01, warmup=10)
    rates = [rate_at(step, own, 512) for step in (1, 5, 10, 40, 1000)]
    assert rates == pytest.approx([0.001, 0.005, 0.01, 0.005, 0.001])


def test_the_corners_of_the_trapezoid():
    recipe = Recipe(steps=100, warmup=10, cooldown=0.4, rate=0.5)
    rates = [rate_at(step, recipe, 512) for step in range(1, 101)]
    assert rates[:9] == pytest.approx([0.05 * step for step in range(1, 10)])
    assert set(rates[9:61]) == {0.5}
    assert rates[61:] == pytest.approx([0.5 * left / 40 for left in range(39, 0, -1)])
    flat = Recipe(steps=100, warmup=1, cooldown=0.0, rate=0.5)
    assert {rate_at(step, flat, 512) for step in range(1, 101)} == {0.5}
    short = Recipe(steps=4, warmup=10, cooldown=1.0, rate=1.0)
    assert [rate_at(step, short, 512) for step in (1, 2, 3, 4)] == [0.1, 0.2, 0.3, 0.25]


# --- One update -------------------------------------------------------------------------------


def updated(recipe, model=None, step=4, corpus=small_corpus()):  # noqa: B008
    """Returns the weights after one update, with its loss and norm."""
    model = model or exact()
    measured = Trainer(model, corpus, recipe, ALONE).update(step, corpus.pairs[:12])
    return tensors_of(model), measured.tolist()


@pytest.mark.parametrize("kind", ["adam", "adamw"])
@pytest.mark.parametrize("clip", [None, 0.1])
def test_updates_are_those_of_torch_and_the_norm_is_that_before_clipping(kind, clip):
    recipe = Recipe(optimizer=kind, clip=clip, beta2=0.9, weight_decay=0.3)
    expected, model = exact(), exact()
    ours = Trainer(model, small_corpus(), recipe, ALONE)
    for parameter in model.parameters():  # what an earlier one left changes nothing
        parameter.grad = torch.full_like(parameter, 1e3)
    vectors, matrices = ([x for x in expected.parameters() if x.dim() == n] for n in (1, 2))
    matrices = {"params": matrices, "weight_decay": 0.3 * (kind == "adamw")}
    groups = [{"params": vectors, "weight_decay": 0.0}, matrices]
    theirs = torch.optim.AdamW(groups, betas=(0.9, 0.9), eps=1e-9)
    for step in (1, 2, 3):
        some = slice(5 * step, 5 * step + 7)
        for group in theirs.param_groups:
            group["lr"] = rate_at(step, recipe, 8)
        theirs.zero_grad()
        batch = small_corpus().batch(small_corpus().pairs[some])
        loss = translation_loss(expected, *batch, smoothing=recipe.smoothing)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(expected.parameters(), clip or math.inf)
        theirs.step()
        assert norm > 0.1
        measured = ours.update(step, small_corpus().pairs[some]).tolist()
        assert measured == pytest.approx([loss.item(), norm.item()])
    assert furthest(tensors_of(expected), tensors_of(model)) < 1e-10


@pytest.mark.parametrize(("parts", "packed"), [(2, False), (3, True), (40, False), (40, True)])
def test_parts_add_up_to_the_whole(parts, packed):
    whole, expected = updated(Recipe(packed=packed))
    summed, measured = updated(Recipe(packed=packed, accumulate=parts))  # 12 sentences
    assert measured == pytest.approx(expected, abs=1e-12)
    assert furthest(whole, summed) < 1e-10


@pytest.mark.parametrize(("step", "back"), [(3, False), (4, True), (6, False)])
def test_at_first_every_second_update_translates_back(step, back):
    """Translates back in steps 2 and 4, of the first half of eight."""
    recipe = Recipe(steps=8, both_ways=0.5, cooldown=0.0, warmup=1)
    sources, targets = zip(*small_corpus().pairs, strict=True)
    sources = [[*s[:-1], 5, EOS] for s in sources]  # so that the two directions differ
    there = Corpus(sources, targets, joint=True)
    other = Corpus([t[1:] for t in targets], [[BOS, *s] for s in sources])
    mixed, _ = updated(recipe, step=step, corpus=there)
    plain = replace(recipe, both_ways=0.0)
    expected, _ = updated(plain, step=step, corpus=other if back else there)
    assert same_tensors(mixed, expected)


def test_both_ways_need_one_vocabulary_by_object_or_by_its_words():
    """Uses two vocabularies of equal size, in which a token ID stands for different words."""
    recipe, words, others = Recipe(steps=2, both_ways=1.0), Words.of(["a b c"]), Words.of(["d e f"])
    pairs = [("a b", "d e"), ("b c a", "d")]
    same = Corpus.of(words, Words(list(words.words)), [(text, text) for text, _ in pairs])
    assert quiet(small(), recipe, same)["step"] == [1, 2]
    streamed = StreamedCorpus(lambda: pairs, words, others)
    for corpus in (Corpus.of(words, others, pairs), streamed):
        with pytest.raises(ValueError, match=r"^both_ways: expected 0 for two vocab.*, got 1.0"):
            quiet(small(), recipe, corpus)


def test_frozen_weights_stay(tmp_path):
    model = small()
    frozen = ["source_embedding.tokens.weight", "decoder.norm.bias"]
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)
    before = copies(model)
    quiet(model, replace(RECIPE, steps=2, accumulate=50), folder=tmp_path)
    after = tensors_of(model)
    unmoved = [name for name in before if torch.equal(before[name], after[name])]
    assert sorted(unmoved) == sorted(frozen)


def test_dropout_is_drawn_anew_at_each_step_and_depends_on_the_seed():
    def loss(step, seed=0):
        return updated(Recipe(seed=seed), small(dropout=0.5), step=step)[1][0]

    assert loss(1) == loss(1)
    assert len({loss(1), loss(2), loss(1, seed=1), loss(1, seed=2**32 - 1)}) == 4


@pytest.mark.parametrize("packed", [False, True])
def test_bfloat16_is_close_and_keeps_the_weights_precise(packed):
    recipe, model = replace(NO_AVERAGE, packed=packed), small(0.0)
    usual = quiet(small(0.0), recipe)
    half = quiet(model, replace(recipe, precision="bfloat16"))
    assert half["loss"] == pytest.approx(usual["loss"], rel=0.02)
    assert half["loss"] != usual["loss"]
    assert {x.dtype for x in model.parameters()} == {torch.float32}


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_compiled_gives_the_same(monkeypatch):
    """Uses the backend that runs the traced code as it is: the usual one takes a minute."""
    torch._dynamo.reset()
    compiler = Mock(wraps=partial(torch.compile, backend="eager"))
    monkeypatch.setattr(torch, "compile", compiler)
    recipe, model, other = Recipe(steps=1, tokens=60), exact(), exact()
    usual, history = quiet(model, recipe), quiet(other, replace(recipe, compile=True))
    compiler.assert_called_once()
    assert history["loss"] == pytest.approx(usual["loss"], abs=1e-12)
    assert furthest(tensors_of(model), tensors_of(other)) < 1e-9


# --- The loop ---------------------------------------------------------------------------------


@pytest.mark.parametrize("average", [None, 0.9])
def test_measuring_changes_nothing(average):
    """Lets a watch draw random numbers, leave gradients and change the mode."""

    def meddling(_, model):
        meddle(model)
        return {"exact": torch.rand(()).ceil()}

    recipe, model, other = replace(RECIPE, average=average), small(), small().eval()
    quiet(model, recipe, every=100)
    torch.manual_seed(5)
    history = quiet(other, recipe, every=1, watch=meddling)
    assert same_tensors(tensors_of(model), tensors_of(other))
    assert history["exact"] == [1.0] * 13


def test_a_row_is_the_mean_of_the_steps_since_the_last():
    single = quiet(small(), every=1)
    rows = quiet(small(), every=5)
    assert rows["step"] == [5, 10, 12]
    for name in ("loss", "norm"):
        parts = [single[name][a:b] for a, b in ((0, 5), (5, 10), (10, 12))]
        assert rows[name] == pytest.approx([sum(part) / len(part) for part in parts], rel=1e-12)
    assert rows["rate"] == [rate_at(step, RECIPE, 8) for step in (5, 10, 12)]


def test_watch_and_the_caller_get_the_average_of_a_recursion_by_hand():
    model, seen, walked = small(), [], []
    quiet(small(), NO_AVERAGE, watch=lambda _, model: walked.append(copies(model)))
    quiet(model, replace(RECIPE, average=0.7), watch=lambda _, model: seen.append(copies(model)))
    assert same_tensors(seen[0], walked[0])
    expected = walked[1]
    for weights, shown in zip(walked[2:], seen[2:], strict=True):
        expected = {name: 0.7 * expected[name] + 0.3 * weights[name] for name in expected}
        assert furthest(shown, expected) < 1e-6
        assert furthest(shown, weights) > 1e-4
    assert len(seen) == 13
    assert same_tensors(tensors_of(model), seen[-1])
    assert model.generator.weight is model.target_embedding.tokens.weight


@pytest.mark.parametrize("stop", [0, 2, None])
def test_the_caller_gets_a_model_to_use_and_its_own_random_numbers_also_when_interrupted(
    stop, tmp_path, capsys
):
    def watch(step, model):
        meddle(model)
        if step == stop:
            raise KeyboardInterrupt

    model, state = small().train(), torch.random.get_rng_state()
    with nullcontext() if stop is None else pytest.raises(KeyboardInterrupt):
        quiet(model, NO_AVERAGE, watch=watch, folder=tmp_path, checkpoint_every=2)
    assert (stop is None) == (tmp_path / CHECKPOINT).exists()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not any(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("every", "poison", "said"),
    [
        (1, lambda weight: weight.data.fill_(math.nan), "loss is nan .* norm nan"),
        (100, lambda weight: weight.data.fill_(math.inf), "loss is nan .* norm nan"),
        (100, lambda weight: weight.register_hook(lambda g: g * math.inf), "loss is [0-9].* norm "),
    ],
)
def test_a_loss_or_gradient_that_is_no_number_stops_it_before_it_is_kept(
    tmp_path, every, poison, said
):
    """Stops at the next note or checkpoint, so the checkpoint on the disk stays good."""
    corpus, model, count = small_corpus(), small(), []

    def poisoned(pairs, back):
        count.append(0)
        if len(count) == 6:
            poison(model.decoder.norm.weight)
        return small_corpus().batch(pairs, back)

    corpus.batch = poisoned
    with pytest.raises(FloatingPointError, match=rf"^the {said}.* at step 6: "):
        quiet(model, RECIPE, corpus, folder=tmp_path, every=every, checkpoint_every=2)
    assert read_checkpoint(tmp_path / CHECKPOINT)[1]["step"] == 4


@pytest.mark.parametrize(("side", "room"), [("source", 13), ("target", 14)])
def test_a_sentence_for_which_there_is_no_room_is_named_before_the_first_step(side, room):
    rows = {"source": [[5, EOS]] * 4, "target": [[BOS, 5, EOS]] * 4}
    rows[side][2] = [BOS] * (side == "target") + [3] * 12 + [EOS]
    corpus, recipe = Corpus(**rows), replace(RECIPE, steps=2, tokens=room)
    for name, model, tokens in (("max_len: .* 13", small(max_len=12), room),
                                (f"tokens: .* {room}", small(), room - 1)):  # fmt: skip
        with pytest.raises(ValueError, match=f"^{name} tokens of sentence pair 3, "):
            quiet(model, replace(recipe, tokens=tokens), corpus)
    assert quiet(small(positions="learned", max_len=13), recipe, corpus)["loss"]

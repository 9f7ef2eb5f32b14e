"""The training engine: recipe, schedules, updates, averages, and the loop around them."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from helpers import difference, same_tensors
from helpers.small_training import RECIPE, quiet, small, small_corpus
from unmasked import Transformer
from unmasked.evaluation import mean_cross_entropy
from unmasked.loss import smoothed_cross_entropy, translation_loss
from unmasked.storage import checkpoint
from unmasked.storage.files import tensors_of
from unmasked.storage.lock import LOCK
from unmasked.text.corpus import Corpus
from unmasked.text.streaming import StreamedCorpus
from unmasked.tokens import BOS, EOS, Words
from unmasked.training import trainer
from unmasked.training.processes import Processes
from unmasked.training.recipe import Recipe, optimizer_for, rate_at
from unmasked.training.trainer import Trainer, train

ALONE = Processes(0, 1, torch.device("cpu"))


def changed(**changes):
    return Recipe(**{**vars(RECIPE), **changes})


def exact():
    """In float64, without dropout."""
    return small(dropout=0.0).double()


def copies(model):
    return {name: x.clone() for name, x in tensors_of(model).items()}


def furthest(a, b):
    return max(difference(a[name], b[name]) for name in a)


# --- The recipe -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps: expected a whole number of at least 1, got 0"),
        ({"tokens": 1.5}, "tokens: expected a whole number"),
        ({"accumulate": 0}, "accumulate: expected a whole number of at least 1, got 0"),
        ({"warmup": -1}, "warmup: expected a whole number"),
        ({"seed": -1}, "seed: expected a whole number of at least 0, got -1"),
        ({"seed": 2**32}, "seed: expected at most 4,294,967,295, got 4294967296; choose"),
        ({"schedule": "cosine"}, "schedule: expected 'trapezoid' or 'paper', got 'cosine'"),
        ({"optimizer": "sgd"}, "optimizer: expected 'adamw' or 'adam', got 'sgd'"),
        ({"precision": "float16"}, "precision: expected 'float32' or 'bfloat16'"),
        ({"packed": 1}, "packed: expected True or False, got 1"),
        ({"compile": "yes"}, "compile: expected True or False, got 'yes'"),
        ({"beta2": 1.0}, "beta2: expected a probability"),
        ({"weight_decay": -0.1}, "weight_decay: expected a probability"),
        ({"smoothing": None}, "smoothing: expected a probability"),
        ({"cooldown": 1.1}, "cooldown: expected a number from 0 to 1, got 1.1; it is a share"),
        ({"both_ways": -0.1}, "both_ways: expected a number from 0 to 1, got -0.1; it is a share"),
        ({"rate": math.nan}, "rate: expected a number from 0 to 1, got nan; 0.003 is a good"),
        ({"rate": None}, "rate: expected a number for the trapezoid, got None; None is the paper"),
        ({"clip": 0.0}, "clip: expected a number from 1e-09 to 1e.09, got 0.0; None does not clip"),
        ({"average": 1.0}, "average: expected a probability"),
    ],
)
def test_a_recipe_that_cannot_work_is_refused(changes, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        Recipe(**changes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": None}, "model: expected a Transformer, got NoneType"),
        ({"corpus": []}, "corpus: expected a Corpus or a StreamedCorpus, got list"),
        ({"recipe": {}}, "recipe: expected a Recipe, got dict"),
        ({"every": 0}, "every: expected a whole number of at least 1"),
        ({"checkpoint_every": 0}, "checkpoint_every: expected a whole number of at least 1"),
    ],
)
def test_what_cannot_be_trained_is_refused(arguments, message):
    usual = {"model": small(), "corpus": small_corpus(), "recipe": RECIPE}
    with pytest.raises(ValueError, match=f"^{message}"):
        train(**{**usual, **arguments})


@pytest.mark.parametrize(("d_model", "warmup"), [(512, 4000), (1024, 4000), (64, 7)])
def test_the_papers_schedule_is_equation_3(d_model, warmup):
    recipe = Recipe(schedule="paper", rate=None, warmup=warmup)
    for step in [*range(1, 20), warmup - 1, warmup, warmup + 1, 100_000]:
        expected = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert rate_at(step, recipe, d_model) == pytest.approx(expected, rel=1e-12)


def test_the_papers_schedule_with_a_rate_of_ones_own():
    recipe = Recipe(schedule="paper", rate=0.01, warmup=10)
    rates = [rate_at(step, recipe, 512) for step in (1, 5, 10, 40, 1000)]
    assert rates == pytest.approx([0.001, 0.005, 0.01, 0.005, 0.001])


def test_the_corners_of_the_trapezoid():
    recipe = Recipe(steps=100, warmup=10, cooldown=0.4, rate=0.5)
    rates = {step: rate_at(step, recipe, 512) for step in range(1, 101)}
    assert rates[1] == pytest.approx(0.05)
    assert rates[9] == pytest.approx(0.45)
    assert {rates[step] for step in range(10, 62)} == {0.5}
    assert rates[62] == pytest.approx(0.5 * 39 / 40)
    assert rates[100] == pytest.approx(0.5 / 40)
    flat = Recipe(steps=100, warmup=1, cooldown=0.0, rate=0.5)
    assert {rate_at(step, flat, 512) for step in range(1, 101)} == {0.5}
    short = Recipe(steps=4, warmup=10, cooldown=1.0, rate=1.0)
    assert [rate_at(step, short, 512) for step in (1, 2, 3, 4)] == [0.1, 0.2, 0.3, 0.25]


# --- One update -----------------------------------------------------------------------------------


def updated(recipe, model=None, numbers=range(12), step=4, corpus=None):
    model = model or exact()
    corpus = corpus or small_corpus()
    measured = Trainer(model, corpus, recipe, ALONE).update(step, list(numbers))
    return tensors_of(model), *measured.tolist()


def gradient(model, recipe, numbers=range(12)):
    source, target = small_corpus().batch(list(numbers))
    loss = translation_loss(model, source, target, smoothing=recipe.smoothing)
    loss.backward()
    return loss.item(), {name: x.grad for name, x in model.named_parameters()}


def test_the_first_update_by_hand():
    """Adam's first step, whatever the gradient's size: the rate, against its sign."""
    recipe = Recipe(optimizer="adam", clip=None, schedule="paper", rate=None, warmup=100)
    model = exact()
    before, (loss, gradients) = copies(model), gradient(model, recipe)
    rate = rate_at(4, recipe, 8)
    after, measured, norm = updated(recipe)
    for name, g in gradients.items():
        assert difference(after[name], before[name] - rate * g / (g.abs() + 1e-9)) < 1e-12
    assert measured == pytest.approx(loss, abs=1e-12)
    assert norm == pytest.approx(
        math.sqrt(sum(float(g.square().sum()) for g in gradients.values()))
    )


@pytest.mark.parametrize("kind", ["adam", "adamw"])
@pytest.mark.parametrize("clip", [None, 0.1])
def test_updates_are_those_of_torch(kind, clip):
    recipe = Recipe(optimizer=kind, clip=clip, beta2=0.9, weight_decay=0.3)
    expected, model = exact(), exact()
    ours = Trainer(model, small_corpus(), recipe, ALONE)
    options = {"betas": (0.9, 0.9), "eps": 1e-9}
    if kind == "adam":
        theirs = torch.optim.Adam(expected.parameters(), **options)
    else:
        matrices = [x for x in expected.parameters() if x.dim() == 2]
        vectors = {"params": [x for x in expected.parameters() if x.dim() == 1], "weight_decay": 0}
        theirs = torch.optim.AdamW([{"params": matrices}, vectors], weight_decay=0.3, **options)
    for step in (1, 2, 3):
        numbers = list(range(5 * step, 5 * step + 7))
        for group in theirs.param_groups:
            group["lr"] = rate_at(step, recipe, 8)
        theirs.zero_grad()
        gradient(expected, recipe, numbers)
        norm = torch.nn.utils.get_total_norm([x.grad for x in expected.parameters()])
        if clip:
            torch.nn.utils.clip_grad_norm_(expected.parameters(), clip)
        theirs.step()
        assert ours.update(step, numbers)[1] == pytest.approx(norm.item())
    assert furthest(tensors_of(expected), tensors_of(model)) < 1e-10


@pytest.mark.parametrize("clip", [0.05, 1e9, None])
def test_the_gradient_is_clipped_and_its_norm_reported_as_it_was(clip, monkeypatch):
    model = exact()
    ours = Trainer(model, small_corpus(), Recipe(clip=clip), ALONE)
    found = []
    monkeypatch.setattr(
        ours.optimizer,
        "step",
        lambda: found.append(torch.nn.utils.get_total_norm([x.grad for x in model.parameters()])),
    )
    norm = ours.update(1, list(range(9)))[1].item()
    assert norm > 0.1
    assert found[0].item() == pytest.approx(min(norm, clip or math.inf), rel=1e-4)


def test_decay_pulls_matrices_and_nothing_else():
    model = exact()
    groups = optimizer_for(model, Recipe(weight_decay=0.1)).param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert {x.dim() for x in groups[0]["params"]} == {2}
    assert {x.dim() for x in groups[1]["params"]} == {1}
    count = sum(x.numel() for group in groups for x in group["params"])
    assert count == model.count_parameters()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("parts", [2, 3, 12, 40])
def test_parts_add_up_to_the_whole(parts, packed):
    """Also where there are more parts than sentences."""
    whole, loss, norm = updated(Recipe(packed=packed))
    summed, again, same = updated(Recipe(accumulate=parts, packed=packed))
    assert again == pytest.approx(loss, abs=1e-12)
    assert same == pytest.approx(norm, abs=1e-12)
    assert furthest(whole, summed) < 1e-10


def test_parts_that_were_not_divided_would_be_noticed(monkeypatch):
    _, loss, norm = updated(Recipe())

    def undivided(*batch, total, **options):  # noqa: ARG001
        return translation_loss(*batch, **options)

    monkeypatch.setattr(trainer, "translation_loss", undivided)
    _, again, other = updated(Recipe(accumulate=3))
    assert again > 2 * loss
    assert other > 2 * norm


@pytest.mark.parametrize(("step", "back"), [(3, False), (4, True), (5, False), (6, False)])
def test_at_first_every_second_update_translates_back(step, back):
    """In the first half of ten steps: 2 and 4."""
    recipe = Recipe(steps=10, both_ways=0.5, cooldown=0.0, warmup=1)
    targets = small_corpus().target
    there = Corpus([[*s[:-1], 5, EOS] for s in small_corpus().source], targets, joint=True)
    other = Corpus([t[1:] for t in targets], [[BOS, *s] for s in there.source])
    mixed, _, _ = updated(recipe, step=step, corpus=there)
    plain = Recipe(steps=10, cooldown=0.0, warmup=1)
    expected, _, _ = updated(plain, step=step, corpus=other if back else there)
    assert same_tensors(mixed, expected)


HERE, THERE = Words.of(["a b c"]), Words.of(["d e f"])  # of equal size
PAIRS = [("a b", "c"), ("b c a", "b")]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("target", "accepted"), [(HERE, True), (Words(list(HERE.words)), True), (THERE, False)]
)
def test_both_ways_need_one_vocabulary_by_object_or_by_its_words(streamed, target, accepted):
    """Two vocabularies of equal size are two: a token of one means something else in the other."""
    pairs = [(text, " ".join(target.words[3:])) for text, _ in PAIRS]
    corpus = Corpus.of(HERE, target, pairs)
    if streamed:
        corpus = StreamedCorpus(lambda: pairs, HERE, target)
    model = small(source_vocab=len(HERE), target_vocab=len(target))
    recipe = Recipe(steps=4, tokens=60, both_ways=1.0)
    if accepted:
        assert quiet(model, recipe, corpus)["step"] == [1, 2, 3, 4]
        return
    message = "both_ways: expected 0 for two vocabularies, got 1.0; make the corpus with one"
    with pytest.raises(ValueError, match=f"^{message}"):
        quiet(model, recipe, corpus)


def test_a_corpus_of_numbers_alone_is_not_turned_back_unless_it_says_so():
    tokens = [[5, 6, EOS]], [[BOS, 7, EOS]]
    recipe = Recipe(steps=2, tokens=10, both_ways=1.0)
    assert quiet(small(), recipe, Corpus(*tokens, joint=True))["step"] == [1, 2]
    with pytest.raises(ValueError, match=r"^both_ways: expected 0 for two vocabularies"):
        quiet(small(), recipe, Corpus(*tokens))


def test_what_an_earlier_gradient_left_changes_nothing():
    model = exact()
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 1e3)
    assert same_tensors(updated(RECIPE, model)[0], updated(RECIPE)[0])


def test_frozen_weights_stay(tmp_path):
    model = small()
    frozen = ["source_embedding.tokens.weight", "decoder.norm.bias"]
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)
    before = copies(model)
    quiet(model, changed(steps=2, accumulate=50), folder=tmp_path)
    after = tensors_of(model)
    unmoved = [name for name in before if torch.equal(before[name], after[name])]
    assert sorted(unmoved) == sorted(frozen)


def test_dropout_is_drawn_anew_at_each_step_and_depends_on_the_seed():
    def loss(step, seed=0):
        return updated(Recipe(seed=seed), small(dropout=0.5), step=step)[1]

    assert loss(1) == loss(1)
    assert len({loss(1), loss(2), loss(1, seed=1), loss(1, seed=2**32 - 1)}) == 4


# --- Precision and compilation --------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_bfloat16_is_close_and_keeps_the_weights_precise(packed):
    recipe = changed(average=None, packed=packed)
    usual = quiet(small(0.0), recipe)
    model = small(0.0)
    half = quiet(model, Recipe(**{**vars(recipe), "precision": "bfloat16"}))
    assert half["loss"] == pytest.approx(usual["loss"], rel=0.02)
    assert half["loss"] != usual["loss"]
    assert {x.dtype for x in model.parameters()} == {torch.float32}


def test_the_loss_is_summed_precisely_where_logits_are_halves():
    logits, labels = torch.randn(500, 9), torch.randint(9, (500,))
    half = smoothed_cross_entropy(logits.bfloat16(), labels, 0.1)
    assert half.dtype == torch.float32
    expected = smoothed_cross_entropy(logits.bfloat16().float(), labels, 0.1)
    assert difference(half, expected) < 1e-6
    assert smoothed_cross_entropy(logits.double(), labels, 0.1).dtype == torch.float64


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_compiled_gives_the_same(monkeypatch):
    """With the backend that runs what was traced as it is: the other takes a minute."""
    asked = []

    def traced(module, **options):
        asked.append(options)
        return compiler(module, backend="eager", **options)

    compiler = torch.compile
    torch._dynamo.reset()
    monkeypatch.setattr(torch, "compile", traced)
    recipe = Recipe(steps=3, tokens=60, accumulate=2)
    model, other = exact(), exact()
    usual = quiet(model, recipe)
    history = quiet(other, Recipe(**{**vars(recipe), "compile": True}))
    assert asked == [{"dynamic": True}]
    assert history["loss"] == pytest.approx(usual["loss"], abs=1e-12)
    assert furthest(tensors_of(model), tensors_of(other)) < 1e-9


# --- The loop -------------------------------------------------------------------------------------


def test_it_learns():
    """To repeat its source: nearly all of what it could know."""
    recipe = Recipe(steps=150, tokens=400, rate=0.02, warmup=20, smoothing=0.0)
    model = small(0.0, d_model=32, d_ff=64)
    history = quiet(model, recipe, small_corpus(400, longest=5), every=10)
    assert history["loss"][0] > 2.5
    assert history["loss"][-1] < 0.5


def test_the_same_recipe_gives_the_same_weights_and_another_seed_does_not():
    def weights(**changes):
        model = small()
        quiet(model, changed(**changes))
        return tensors_of(model)

    assert same_tensors(weights(), weights())
    assert furthest(weights(), weights(seed=1)) > 1e-4


@pytest.mark.parametrize("average", [None, 0.9])
def test_measuring_changes_nothing(average):
    model, other = small(), small()
    quiet(model, changed(average=average), every=100)
    torch.manual_seed(5)
    history = quiet(other, changed(average=average), every=1, watch=meddling)
    assert same_tensors(tensors_of(model), tensors_of(other))
    assert history["exact"] == [1.0] * 13


def test_it_trains_with_dropout_whatever_the_mode_was():
    model, other = small(0.5).train(), small(0.5).eval()
    recipe = changed(average=None)  # so that what is watched is what is trained
    quiet(model, recipe)
    quiet(other, recipe, watch=lambda step, model: None)  # sees it in evaluation mode
    assert same_tensors(tensors_of(model), tensors_of(other))


def meddling(_, model):
    """Random numbers, gradients and the mode are not its business, and do no harm."""
    assert not model.training
    source, target = small_corpus().batch([0, 1])
    translation_loss(model.train(), source, target).backward()
    return {"exact": torch.rand(()).ceil()}


def test_a_row_is_the_mean_of_the_steps_since_the_last():
    single = quiet(small(), every=1)
    rows = quiet(small(), every=5)
    assert rows["step"] == [5, 10, 12]
    for name in ("loss", "norm"):
        parts = [single[name][a:b] for a, b in ((0, 5), (5, 10), (10, 12))]
        assert rows[name] == pytest.approx([sum(part) / len(part) for part in parts], rel=1e-12)
    assert rows["rate"] == [rate_at(step, RECIPE, 8) for step in (5, 10, 12)]


def test_watch_sees_the_model_before_the_first_step_and_after_every_so_many():
    seen = []

    def watch(step, model):
        seen.append((step, model))

    model = small()
    history = quiet(model, changed(average=None), every=4, watch=watch)
    assert seen == [(step, model) for step in (0, 4, 8, 12)]
    assert history["step"] == [4, 8, 12]


def test_watch_and_the_caller_get_the_average_of_a_recursion_by_hand(monkeypatch):
    """After every step: where the training itself stands is another model."""
    model, seen, walked, advance = small(), [], [], Trainer.advance

    def advancing(self):
        advance(self)
        walked.append(copies(self.model))

    monkeypatch.setattr(Trainer, "advance", advancing)
    first = copies(model)
    quiet(model, changed(average=0.7), watch=lambda _, model: seen.append(copies(model)))
    assert len(walked) == len(seen) - 1 == 12
    assert same_tensors(seen[0], first)
    expected = walked[0]
    assert furthest(seen[1], expected) < 1e-6
    for weights, shown in zip(walked[1:], seen[2:], strict=True):
        expected = {name: 0.7 * expected[name] + 0.3 * weights[name] for name in expected}
        assert furthest(shown, expected) < 1e-6
        assert furthest(shown, weights) > 1e-4
    assert same_tensors(tensors_of(model), seen[-1])
    assert model.generator.weight is model.target_embedding.tokens.weight


@pytest.mark.parametrize("average", [None, 0.9])
def test_the_last_watched_value_is_that_of_the_returned_model(average, tmp_path):
    """Also when the training was resumed."""
    corpus = small_corpus(30)

    def watch(_, model):
        return {"held out": mean_cross_entropy(model, corpus)}

    recipe, model = changed(average=average), small()
    history = quiet(model, recipe, watch=watch)
    assert history["held out"][-1] == mean_cross_entropy(model, corpus)
    assert len(set(history["held out"])) == 13
    with pytest.raises(KeyboardInterrupt):
        quiet(small(), recipe, folder=tmp_path, checkpoint_every=1, watch=partial(stopped, 5))
    again = quiet(small(), recipe, folder=tmp_path, resume=True, watch=watch)
    assert again["held out"] == history["held out"][-len(again["held out"]) :]
    assert len(again["held out"]) > 5


def test_watching_the_training_itself_would_be_noticed(monkeypatch):
    """The curve would be of another model than the one that comes back."""
    monkeypatch.setattr(Trainer, "result", lambda self: self.model)
    model, seen = small(), []
    quiet(model, changed(average=0.7), watch=lambda _, model: seen.append(copies(model)))
    assert furthest(tensors_of(model), seen[-1]) > 1e-4


def test_the_caller_gets_back_a_model_to_use_and_its_own_random_numbers():
    model = small().train()
    state = torch.random.get_rng_state()
    quiet(model)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not any(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("step", [0, 2])
def test_also_when_it_is_interrupted(step, tmp_path, capsys):
    def watch(now, model):
        translation_loss(model.train(), *small_corpus().batch([0, 1])).backward()
        if now == step:
            raise KeyboardInterrupt

    model = small()
    state = torch.random.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        quiet(model, changed(average=None), watch=watch, folder=tmp_path)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not any(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("every", [1, 100])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_it_before_it_is_kept(tmp_path, every, value):
    """At the next note, or at the next checkpoint: what is on the disk is still good."""
    poison = small_corpus()
    poison.batch = partial(poisoned, model := small(), value, [])
    message = r"^the loss is nan and the gradient's norm nan at step 6: lower the rate, warm up for"
    with pytest.raises(FloatingPointError, match=message):
        quiet(model, RECIPE, poison, folder=tmp_path, every=every, checkpoint_every=2)
    assert checkpoint.newest(tmp_path).state["step"] == 4
    again, expected = small(), small()
    quiet(again, folder=tmp_path, resume=True)
    quiet(expected)
    assert same_tensors(tensors_of(again), tensors_of(expected))


def poisoned(model, value, count, numbers, back):
    count.append(0)
    if len(count) == 6:
        model.decoder.norm.weight.data[0] = value
    return small_corpus().batch(numbers, back)


def test_a_gradient_that_is_no_number_is_found_too(monkeypatch):
    real = trainer.translation_loss

    def steep(*batch, **options):
        loss = real(*batch, **options)
        loss.register_hook(lambda g: g * math.inf)
        return loss

    monkeypatch.setattr(trainer, "translation_loss", steep)
    with pytest.raises(FloatingPointError, match=r"the loss is 3.* norm (nan|inf) at step 1: low"):
        quiet(small())


# --- The data's order -----------------------------------------------------------------------------


def orders(monkeypatch):
    """The sentence numbers of every update that is made from now on."""
    seen, real = [], Trainer.update

    def update(self, step, numbers):
        measured = real(self, step, numbers)
        seen.append((step, tuple(numbers)))
        return measured

    monkeypatch.setattr(Trainer, "update", update)
    return seen


def test_each_epoch_has_every_sentence_once_also_when_resumed_within_one(tmp_path, monkeypatch):
    seen = orders(monkeypatch)
    quiet(small(), changed(steps=30))
    whole = list(seen)
    epoch = len(small_corpus().epoch(0, RECIPE.tokens, 0))
    assert 3 < epoch < 15
    for start in (0, epoch):
        numbers = [number for _, batch in whole[start : start + epoch] for number in batch]
        assert sorted(numbers) == list(range(40))
    assert whole[:epoch] != whole[epoch : 2 * epoch]

    for stop in (epoch - 1, epoch, epoch + 2):
        folder = tmp_path / str(stop)
        seen.clear()
        watch = partial(stopped, stop)
        with pytest.raises(KeyboardInterrupt):
            quiet(small(), changed(steps=30), folder=folder, checkpoint_every=1, watch=watch)
        kept = checkpoint.newest(folder).state["step"]
        quiet(small(), changed(steps=30), folder=folder, resume=True)
        assert [*seen[:kept], *seen[stop:]] == whole


def stopped(last, step, _):
    if step == last:
        raise KeyboardInterrupt


def test_a_corpus_whose_sentence_does_not_fit_is_refused():
    long = Corpus([[3] * 70 + [EOS]], [[BOS, *[3] * 70, EOS]])
    with pytest.raises(ValueError, match="max_tokens: expected room for the longest sentence, 72"):
        quiet(small(), corpus=long)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_sentence_beyond_learned_positions_is_named_before_the_first_step(side, tmp_path):
    rows = {"source": [[5, EOS]] * 4, "target": [[BOS, 5, EOS]] * 4}
    rows[side][2] = [BOS] * (side == "target") + [3] * 12 + [EOS]
    corpus, learned = Corpus(**rows), {"positions": "learned", "max_len": 12}
    model = Transformer(replace(small().config, **learned))
    message = r"max_len: expected at least the 13 tokens of sentence pair 3, got 12; raise it"
    with pytest.raises(ValueError, match=message):
        quiet(model, corpus=corpus, folder=tmp_path)
    assert checkpoint.checkpoints(tmp_path) == []
    longer = Transformer(replace(small().config, positions="learned", max_len=13))
    assert quiet(longer, replace(RECIPE, steps=2), corpus)["loss"]


def test_one_sentence_is_enough():
    model = small(0.0)
    one = Corpus([[5, 6, EOS]], [[BOS, 7, EOS]])
    history = quiet(model, Recipe(steps=60, tokens=10, rate=0.01, accumulate=2, warmup=5), one)
    assert history["loss"][-1] < history["loss"][0] / 2


@pytest.mark.parametrize("average", [None, 0.7])
def test_whoever_watches_may_ask_the_trained_model_itself(average):
    """It is not in training mode then: its dropout would give another answer each time."""
    model, modes = small(), []
    quiet(model, changed(average=average), watch=lambda *_: modes.append(model.training))
    assert modes == [False] * 13

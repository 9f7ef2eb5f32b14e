"""One way to train and to measure, for every model that is compared; and what they learn from."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unmasked.loss import smoothed_cross_entropy, teacher_forcing
from unmasked.text.corpus import Corpus
from unmasked.tokens import PADDING
from unmasked.training.recipe import Recipe, optimizer_for, rate_at
from unmasked.transformer import evaluating
from unmasked_book.examples import encode_words, random_words


def learn(
    model: nn.Module,
    corpus: Corpus,
    recipe: Recipe,
    *,
    watch: Callable[[], float] | None = None,
    every: int = 50,
) -> list[float]:
    """Trains model(source, target) → logits in place; what `watch` returns, `every` so many steps.

    Dropout is drawn from the recipe's seed. The paper's own rate is for width 512.
    """
    device = next(model.parameters()).device
    optimizer, stream = optimizer_for(model, recipe), corpus.stream(recipe.tokens, recipe.seed)
    seen = []
    torch.manual_seed(recipe.seed)
    model.train()
    for step in range(1, recipe.steps + 1):
        pairs, _ = next(stream)
        source, target = (x.to(device) for x in corpus.batch(pairs))
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, recipe, 512)
        optimizer.zero_grad()
        label_cross_entropy(model, source, target, recipe.smoothing).mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip or torch.inf)
        optimizer.step()
        if watch is not None and (step % every == 0 or step == recipe.steps):
            seen.append(watch())
    model.eval()
    return seen


def label_cross_entropy(
    model: nn.Module, source: Tensor, target: Tensor, smoothing: float = 0.0
) -> Tensor:
    """[B, S], [B, T + 1] → the cross-entropy of each label that is no padding: [N]."""
    inputs, labels = teacher_forcing(target)
    real = labels != PADDING
    return smoothed_cross_entropy(model(source, inputs)[real], labels[real], smoothing)


class Score(NamedTuple):
    cross_entropy: float  # nats a label
    right: float  # share of the labels that are the model's first choice, given those before


def score(model: nn.Module, corpus: Corpus) -> Score:
    """How well a model foresees each label of a corpus, given those before it."""
    device = next(model.parameters()).device
    nats, right = 0.0, 0.0
    with evaluating(model):
        for pairs in corpus.epoch(0, 4096, 0):
            source, target = (x.to(device) for x in corpus.batch(pairs))
            inputs, labels = teacher_forcing(target)
            real = labels != PADDING
            logits = model(source, inputs)[real]
            nats += smoothed_cross_entropy(logits, labels[real], 0.0).sum().item()
            right += (logits.argmax(-1) == labels[real]).sum().item()
    count = corpus.labels()
    return Score(nats / count, right / count)


def spelling_corpus(count: int, *, seed: int = 0) -> Corpus:
    """Words to be spelled backwards, the same for the same seed."""
    draws = torch.Generator().manual_seed(seed)
    source, target = encode_words(random_words(count, 3, 9, draws))
    kept = [
        [[n for n in row if n != PADDING] for row in side.tolist()] for side in (source, target)
    ]
    return Corpus(*kept)

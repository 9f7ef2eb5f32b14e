"""One way to train and to measure models of different kinds that are compared."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from unmasked.loss import smoothed_cross_entropy, teacher_forcing
from unmasked.text.corpus import Corpus
from unmasked.tokens import PADDING
from unmasked.training.recipe import Recipe, optimizer_for, rate_at
from unmasked.transformer import evaluating


def learn(
    model: nn.Module, corpus: Corpus, recipe: Recipe, watch: Callable[[], float], every: int
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
        of_labels(model, source, target, recipe.smoothing).mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip or torch.inf)
        optimizer.step()
        if step % every == 0 or step == recipe.steps:
            seen.append(watch())
    model.eval()
    return seen


def cross_entropy(model: nn.Module, corpus: Corpus) -> float:
    """Nats a label, given those before it."""
    device, nats = next(model.parameters()).device, 0.0
    with evaluating(model):
        for pairs in corpus.epoch(0, 4096, 0):
            source, target = (x.to(device) for x in corpus.batch(pairs))
            nats += of_labels(model, source, target, 0.0).sum().item()
    return nats / corpus.labels()


def of_labels(model: nn.Module, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """[B, S], [B, T + 1] → the cross-entropy of each label that is no padding: [N]."""
    inputs, labels = teacher_forcing(target)
    real = labels != PADDING
    return smoothed_cross_entropy(model(source, inputs)[real], labels[real], smoothing)

"""Trains spellers with attention scores divided by √K, undivided, or only smaller at first."""

import math

import torch

from unmasked.attention import MultiHeadAttention
from unmasked.loss import teacher_forcing
from unmasked.text.corpus import Corpus
from unmasked.tokens import PADDING
from unmasked.training.recipe import Recipe
from unmasked.training.trainer import train
from unmasked.transformer import Transformer
from unmasked_book.examples import encode_words, random_words, speller

KINDS = ("divided by √K", "not divided", "not divided, smaller start")
DIVIDED, _, SMALLER = KINDS


def change(model: Transformer, kind: str) -> None:
    """Changes a model's attention, in place, to one of `KINDS`, such as "not divided".

    With the smaller start the first scores are as large as if they were divided: queries and keys
    begin smaller by the fourth root of their width each. From the first update on, nothing divides.
    """
    for part in model.modules():
        if isinstance(part, MultiHeadAttention) and kind != DIVIDED:
            root = math.sqrt(part.d_model // part.n_heads)
            part.query.register_forward_hook(lambda _, __, out, root=root: out * root)
            if kind == SMALLER:
                with torch.no_grad():
                    for parameter in (*part.query.parameters(), *part.key.parameters()):
                        parameter.div_(math.sqrt(root))


def trial(*, width: int, kind: str, rate: float, seed: int, steps: int) -> dict[str, float]:
    """Trains a one-head model to spell backwards; returns the share of new words' right letters."""
    model = speller(seed=seed, d_model=width, n_heads=1)
    change(model, kind)
    recipe = Recipe(steps=steps, rate=rate, warmup=max(1, steps // 5), tokens=640, smoothing=0.0,
                    seed=seed)  # fmt: skip
    train(model, spelling_corpus(20 * steps, seed=seed), recipe, progress=False)
    device = next(model.parameters()).device
    source, target = (x.to(device) for x in spelling_corpus(500, seed=seed + 10_000).batch())
    inputs, labels = teacher_forcing(target)
    with torch.inference_mode():
        right = model(source, inputs).argmax(-1) == labels
    return {"right": right[labels != PADDING].float().mean().item()}


def spelling_corpus(count: int, *, seed: int) -> Corpus:
    """Returns a Corpus of random words and the same words reversed, equal for equal seeds."""
    sides = encode_words(random_words(count, 3, 9, torch.Generator().manual_seed(seed)))
    return Corpus(*([[n for n in row if n != PADDING] for row in side.tolist()] for side in sides))

"""Norm before or after the sum, with warm-up and without: which rates can be trained with?

Four layers, random words to be spelled backwards, the same steps and batches for all; AdamW, with
the gradient clipped and without.
"""

from itertools import product

from unmasked.training.recipe import Recipe
from unmasked_book.examples import speller
from unmasked_book.experiments.learning import learn, score, spelling_corpus
from unmasked_book.experiments.procedure import Experiment

NORMS = ("post", "pre")
WARM_UPS = (1, 100)  # steps; one is none
CLIPS = (1.0, None)  # the gradient's norm at most
STEPS = 300


def trial(
    *, norm: str, warmup: int, clip: float | None, rate: float, seed: int, layers: int = 4,
    steps: int = STEPS,
) -> dict[str, float]:  # fmt: skip
    model = speller(seed=seed, n_layers=layers, norm=norm)
    recipe = Recipe(
        steps=steps, rate=rate, warmup=warmup, tokens=640, smoothing=0.0, clip=clip, seed=seed
    )
    learn(model, spelling_corpus(20 * steps, seed=seed), recipe)
    nats, right = score(model, spelling_corpus(500, seed=seed + 10_000))
    validation = score(model, spelling_corpus(500, seed=seed + 20_000)).cross_entropy
    return {"validation": validation, "nats": nats, "right": right}


EXPERIMENT = Experiment(
    trial,
    [{"clip": clip, "norm": norm, "warmup": warmup}
     for clip, norm, warmup in product(CLIPS, NORMS, WARM_UPS)],
    {"rate": (0.001, 0.002, 0.004)},
)  # fmt: skip

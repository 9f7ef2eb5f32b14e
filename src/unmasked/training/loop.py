"""The training loop: one update after the other; measured, kept, and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from tqdm import tqdm

from ..data.corpus import Corpus
from ..data.streaming import AnyCorpus, StreamedCorpus
from ..transformer import Transformer
from ..validation import check_at_least, check_type
from .history import History, tensorboard
from .processes import processes
from .recipe import Recipe
from .run import Run

Watch = Callable[[int, Transformer], Mapping[str, float] | None]


def train(
    model: Transformer,
    corpus: AnyCorpus,
    recipe: Recipe,
    *,
    watch: Watch | None = None,
    every: int = 50,
    folder: Path | str | None = None,
    checkpoint_every: int = 500,
    resume: bool = False,
    device: torch.device | str | None = None,
    progress: bool = True,
    tensorboard_folder: Path | str | None = None,
) -> History:
    """Trains the model in place, in as many processes as torchrun has started.

    Before the first step and after `every` so many, what `watch(step, model)` returns is noted
    beside loss and rate. With a `folder` the training may be killed at any moment: `resume` goes
    on from its last checkpoint and ends with the same weights, to the last bit (on a CPU with as
    many threads; some sums of a GPU have no fixed order). At the end the model holds the average
    of its weights, if the recipe keeps one.
    """
    check_type("model", model, Transformer)
    check_type("corpus", corpus, Corpus, StreamedCorpus)
    check_type("recipe", recipe, Recipe)
    check_at_least("every", every, 1)
    check_at_least("checkpoint_every", checkpoint_every, 1)
    gpus = list(range(torch.cuda.device_count()))
    with processes(device) as group, torch.random.fork_rng(gpus):
        run = Run(model.to(group.device), corpus, recipe, group)
        if folder is not None:
            run.begin(Path(folder), resume)
        writer = tensorboard(tensorboard_folder, run.step) if group.first else None
        silent = {} if progress and group.first else {"disable": True}  # else TQDM_DISABLE decides
        bar = tqdm(total=recipe.steps, initial=run.step, desc="training", unit="step", **silent)
        with bar, writer or nullcontext(), evaluating_after(model):
            if run.step == 0:
                run.note(watch, writer)
            for step in range(run.step + 1, recipe.steps + 1):
                run.advance()
                if step % every == 0 or step == recipe.steps:
                    noted = run.note(watch, writer)
                    figures = {"loss": f"{noted['loss']:.3f}", "rate": f"{noted['rate']:.1e}"}
                    bar.set_postfix(figures, refresh=False)
                if folder is not None and (step % checkpoint_every == 0 or step == recipe.steps):
                    run.save(Path(folder))
                bar.update()
            run.finish()
    return run.history


@contextmanager
def evaluating_after(model: Transformer) -> Iterator[None]:
    """Whatever happens, the model is left ready for use, without gradients."""
    try:
        yield
    finally:
        model.eval()
        model.zero_grad()

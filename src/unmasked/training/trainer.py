"""Trains a model from its first batch to its last checkpoint, in the order in which things happen.

The loss of an update is the mean over all labels of its batch. If the batch is split, also over
processes, each part's summed loss is divided by that number of labels, so that the parts add up.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm import tqdm

from ..errors import invalid, printable, shown
from ..loss import translation_loss
from ..storage import files
from ..storage.weights import set_tensors, tensors_of
from ..text.corpus import Corpus, Cursor, Pair
from ..transformer import Transformer
from .history import History, Row
from .processes import Processes, processes
from .recipe import Recipe, goes_back, optimizer_for, rate_at

CHECKPOINT, FORMAT = "checkpoint.safetensors", "unmasked checkpoint 3"
END = {"steps", "patience"}  # may differ when a training is resumed
ROW = {"step", "loss", "norm", "rate", "seconds"}  # columns that the training itself notes
Watch = Callable[[int, Transformer], Mapping[str, float] | None]
Report = Callable[[History], None]


def train(
    model: Transformer,
    corpus: Corpus,
    recipe: Recipe,
    *,
    watch: Watch | None = None,
    report: Report | None = None,
    every: int = 50,
    folder: Path | str | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    same: Mapping[str, Any] | None = None,
    device: torch.device | str | None = None,
    progress: bool = True,
) -> History:
    """Trains the model in place, in as many processes as torchrun has started; returns its history.

    Args:
        model: a Transformer of this package.
        corpus: sentence pairs as tokens: `translator.corpus(pairs)`.
        recipe: steps, rates, precision and the other settings.
        watch: `watch(step, model)` returns numbers to note beside loss and rate. It is called
            before the first step and after every `every` steps. If the recipe keeps an average of
            the weights, `watch` sees the average, which the model also holds at the end.
        report: `report(history)` is called as often as `watch`, after it.
        folder: gets `checkpoint.safetensors`, replaced every `checkpoint_every` (500) steps. The
            training may be killed at any moment.
        resume: continues from the folder's checkpoint and ends with the same weights, to the last
            bit (on a CPU with as many threads; some sums of a GPU have no fixed order). A recipe
            with more `steps` takes a finished training further, at that recipe's rates.
        same: more values, by names, that must be the same when the training is resumed.
        device: the best available one, unless one is named.
        progress: shows a bar.
    """
    if folder is None and (resume or checkpoint_every is not None):
        name = "resume" if resume else "checkpoint_every"
        raise invalid(name, "a folder for it", "none", "name one, or leave it out")
    often = 500 if checkpoint_every is None else checkpoint_every
    home = None if folder is None else Path(folder)
    with (
        processes(device) as group,
        torch.random.fork_rng(range(torch.cuda.device_count())),
        files.held(home) if home and group.first else nullcontext(),
        ExitStack() as after,
    ):
        trainer = Trainer(model.to(group.device), corpus, recipe, group, same)
        if home:
            trainer.begin(home, resume)
        silent = {} if progress and group.first else {"disable": True}  # else TQDM_DISABLE decides
        bar = tqdm(total=recipe.steps, initial=trainer.step, desc="training", unit="step", **silent)
        after.callback(model.eval)  # also after an error, the model is ready for use
        after.callback(model.zero_grad)
        with bar:
            if trainer.step == 0 and not trainer.history.rows:
                if report is not None and home:  # `run.begin` refuses a model without checkpoint
                    trainer.save(home)
                trainer.note(watch, report)
            ended = trainer.ended()
            while not ended and trainer.step < recipe.steps:
                trainer.advance()
                if trainer.step % every == 0 or trainer.step == recipe.steps:
                    noted = trainer.note(watch, report)
                    ended = trainer.step == recipe.steps or trainer.ended()
                    figures = {"loss": f"{noted['loss']:.3f}", "rate": f"{noted['rate']:.1e}"}
                    bar.set_postfix(figures, refresh=False)
                if home and (trainer.step % often == 0 or ended):
                    trainer.save(home)
                bar.update()
            if trainer.average is not None:
                set_tensors(model, tensors_of(trainer.average.module))
    return trainer.history


class Trainer:
    """A Trainer updates a model; it holds optimizer, averaged weights, step, Cursor and History."""

    def __init__(
        self,
        model: Transformer,
        corpus: Corpus,
        recipe: Recipe,
        group: Processes,
        same: Mapping[str, Any] | None = None,
    ) -> None:
        if recipe.both_ways and not corpus.joint:
            fix = "make the corpus with one vocabulary for both: Corpus.of(words, words, pairs)"
            raise invalid("both_ways", "0 for two vocabularies", recipe.both_ways, fix)
        require_lengths(model, corpus, recipe)
        self.same = dict(same or {})
        self.model, self.corpus, self.recipe, self.group = model, corpus, recipe, group
        self.step, self.cursor, self.history = 0, Cursor(), History()
        self.recent: list[Tensor] = []  # loss and norm of the last updates, still on the device
        self.taken: list[list[float]] = []  # loss and norm of each earlier update since the note
        self.began = time.perf_counter()
        self.average: AveragedModel | None = None
        if recipe.average is not None:
            self.average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(recipe.average))
        self.stream = corpus.stream(recipe.tokens, recipe.seed)
        self.optimizer = optimizer_for(model, recipe)
        self.loss: Any = LossOf(model, recipe)
        if recipe.compile:
            self.loss = torch.compile(self.loss, dynamic=True)
        if group.count > 1:
            on_gpu = [group.device] if group.device.type == "cuda" else None
            self.loss = DistributedDataParallel(self.loss, device_ids=on_gpu)
            self.loss(None, None, 1).backward()  # the first one settles the order of the sums

    # --- A step: from a batch to new weights ----------------------------------------------------

    def advance(self) -> None:
        """Updates the weights, their average and the step count with the corpus's next batch."""
        pairs, cursor = next(self.stream)
        self.model.train()
        self.recent.append(self.update(self.step + 1, pairs))
        if self.average is not None:
            self.average.update_parameters(self.model)
        self.step, self.cursor = self.step + 1, cursor

    def update(self, step: int, pairs: Sequence[Pair]) -> Tensor:
        """Updates the weights by a batch; returns loss and unclipped gradient norm: tensor [2]."""
        recipe, group = self.recipe, self.group
        seed = (int(recipe.seed) * 1_000_003 + step) * 1_009 + group.rank
        torch.manual_seed(seed)  # from the step alone, so a resumed training draws the same
        rate = rate_at(step, recipe, self.model.config.d_model)
        self.optimizer.zero_grad()  # a watch may have left gradients
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = rate
        back = goes_back(step, recipe)
        total = self.corpus.labels(pairs, back)
        losses = []
        parts = group.count * recipe.accumulate
        for first in range(group.rank, parts, group.count):
            last = first + group.count >= parts
            with nullcontext() if last or group.count == 1 else self.loss.no_sync():
                losses.append(self.backward(pairs[first::parts], total, back))
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip or torch.inf)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return torch.stack([group.total(torch.stack(losses).sum()), norm])

    def backward(self, pairs: Sequence[Pair], total: int, back: bool) -> Tensor:
        """Adds the gradient of these pairs' summed loss divided by `total`; returns this loss."""
        batch: Any = (None, None)
        if pairs:
            batch = [x.to(self.group.device) for x in self.corpus.batch(pairs, back)]
        half = self.recipe.precision == "bfloat16"
        with torch.autocast(self.group.device.type, torch.bfloat16, enabled=half):
            loss: Tensor = self.loss(*batch, total)
        (loss * self.group.count).backward()  # DistributedDataParallel takes the mean
        return loss.detach()

    # --- A note: what was measured --------------------------------------------------------------

    def note(self, watch: Watch | None, report: Report | None) -> Row:
        """Adds a row to the history and returns it: mean loss, norm and what `watch` returns."""
        row: Row = {}
        if taken := self.measured():
            loss, norm = (fmean(column) for column in zip(*taken, strict=True))
            rate = rate_at(self.step, self.recipe, self.model.config.d_model)
            row = {"loss": loss, "norm": norm, "rate": rate}
            row["seconds"] = time.perf_counter() - self.began
            self.taken = []
        if watch is not None and self.group.first:
            self.model.eval()  # a watch may look at this one, too
            shown: Any = self.model if self.average is None else self.average.module
            watched = watch(self.step, shown.eval()) or {}
            if own_names := ROW & watched.keys():
                expected = f"other names than {', '.join(sorted(ROW))}"
                raise invalid("watch", expected, min(own_names), "call it otherwise")
            row |= {name: float(value) for name, value in watched.items()}
        if row:
            self.history.add(self.step, row)
        if report is not None and self.group.first:
            report(self.history)
        return row

    def ended(self) -> bool:
        """Returns True if the validation loss has not fallen in its last `patience` rows."""
        if self.recipe.patience is None:
            return False
        losses = [row["validation"] for row in self.history.rows if "validation" in row]
        if self.group.first and not losses:
            fix = "let the watch return {'validation': loss}, or leave patience out"
            raise invalid("patience", "a validation loss", "none", fix)
        late = len(losses) - 1 - losses.index(min(losses)) if losses else 0
        over = self.group.first and late >= self.recipe.patience  # only the first measures
        return bool(self.group.total(torch.tensor(float(over), device=self.group.device)))

    def measured(self) -> list[list[float]]:
        """Returns each update's [loss, gradient norm] since the last row; raises unless finite."""
        if self.recent:
            self.taken += torch.stack(self.recent).tolist()
            self.recent = []
        for step, (loss, norm) in enumerate(self.taken, self.step - len(self.taken) + 1):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                advice = "lower the rate, warm up for longer, or clip the gradient"
                values = f"the loss is {loss} and the gradient's norm {norm}"
                raise FloatingPointError(f"{values} at step {step}: {advice}")
        return self.taken

    # --- A checkpoint: written, and resumed -----------------------------------------------------

    def save(self, folder: Path) -> None:
        """Writes the folder's checkpoint, of weights, optimizer, history, in the first process."""
        self.measured()
        if not self.group.first:
            return
        parts = {"weights": tensors_of(self.model)}
        for number, state in self.optimizer.state_dict()["state"].items():
            parts[f"optimizer.{number}"] = state
        if self.average is not None:
            parts["average"] = tensors_of(self.average.module)
        tensors = {f"{part}.{name}": x for part, each in parts.items() for name, x in each.items()}
        said = {"format": FORMAT, "step": self.step, "cursor": self.cursor, "taken": self.taken,
                "seconds": time.perf_counter() - self.began, "history": self.history.rows,
                "identity": self.identity}  # fmt: skip
        files.write(folder / CHECKPOINT, tensors, said)

    def begin(self, folder: Path, resume: bool) -> None:
        """Restores a folder's checkpoint, if there is one; raises ValueError unless `resume`."""
        path = folder / CHECKPOINT
        if not path.exists():
            return
        if not resume:
            fix = "resume it, or choose another folder"
            raise invalid("folder", "one without a training in it", str(folder), fix)
        tensors, said = read_checkpoint(path)
        self.require_identity(path, said)
        self.restore(tensors, said)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Returns what a resumed training must share: configuration, recipe, digest of the data."""
        dtype = str(next(self.model.parameters()).dtype)
        own = {"data": self.corpus.fingerprint(), "dtype": dtype, "processes": self.group.count}
        return {**own, **asdict(self.model.config), **asdict(self.recipe), **self.same}

    def require_identity(self, path: Path, said: Mapping[str, Any]) -> None:
        """Raises ValueError if a checkpoint's JSON has another identity or is past the end."""
        kept, mine = said["identity"], self.identity
        for name in (mine | kept).keys() - END:
            if kept.get(name) != mine.get(name):
                fix = "resume with what it began with, or begin in another folder"
                expected = f"{name}={kept.get(name)!r}, as in {path}"
                raise invalid("resume", expected, repr(mine.get(name)), fix)
        if self.recipe.steps < said["step"]:
            fix = "resume with more, or begin in another folder"
            raise invalid("steps", f"at least the {said['step']} of {path}", self.recipe.steps, fix)

    def restore(self, tensors: Mapping[str, Tensor], said: Mapping[str, Any]) -> None:
        def part(begin: str) -> dict[str, Tensor]:
            return {key[len(begin) :]: x for key, x in tensors.items() if key.startswith(begin)}

        set_tensors(self.model, part("weights."))
        if self.average is not None:
            set_tensors(self.average.module, part("average."))
            self.average.n_averaged.fill_(said["step"])
        states = {n: part(f"optimizer.{n}.") for n, _ in enumerate(self.model.parameters())}
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": states})
        self.step, self.cursor = said["step"], Cursor(*said["cursor"])
        self.history, self.began = History(said["history"]), self.began - said["seconds"]
        self.taken = said["taken"]
        self.stream = self.corpus.stream(self.recipe.tokens, self.recipe.seed, self.cursor)


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns a checkpoint's tensors and JSON; raises ValueError unless `Trainer.save` wrote it."""
    fix = "it is damaged or of another version: choose another folder, or delete it"
    try:
        tensors, said = files.read(path)
    except (ValueError, RecursionError) as error:
        raise invalid(str(path), "a checkpoint", printable(str(error)), fix) from None
    found = said.get("format") if isinstance(said, dict) else None
    if found != FORMAT:
        raise invalid(str(path), repr(FORMAT), shown(found), fix)
    return tensors, said


def require_lengths(model: Transformer, corpus: Corpus, recipe: Recipe) -> None:
    """Raises ValueError for a pair, of those in memory, that is too long for model or batch."""
    for name, room, begin in (("max_len", model.config.max_len, 1), ("tokens", recipe.tokens, 0)):
        needed = [max(len(source), len(target) - begin) for source, target in corpus.pairs]
        longest = max(needed, default=0)
        if longest > room:
            expected = f"room for the {longest} tokens of sentence pair {needed.index(longest) + 1}"
            raise invalid(name, expected, room, "raise it, or leave long sentences out")


class LossOf(nn.Module):
    """A LossOf is one module of a model and its loss, to compile or to spread over processes."""

    def __init__(self, model: Transformer, recipe: Recipe) -> None:
        super().__init__()
        self.model = model
        self.options: Any = {"smoothing": recipe.smoothing, "packed": recipe.packed}

    def forward(self, source: Tensor | None, target: Tensor | None, total: int) -> Tensor:
        if source is None or target is None:  # no sentences, but other processes wait
            return torch.stack([0.0 * p.sum() for p in self.model.parameters()]).sum()
        return translation_loss(self.model, source, target, total=total, **self.options)

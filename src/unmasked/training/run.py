"""From a recipe's tables to a model in a folder: data, model, training, and what is kept."""

import math
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from ..config import TransformerConfig
from ..errors import check_choice, invalid
from ..evaluation import bleu, chrf, mean_cross_entropy
from ..machine import device as best_device
from ..machine import machine
from ..storage.checkpoint import checkpoints
from ..storage.model import CONFIG
from ..text.corpus import Corpus
from ..text.sources import Data, load_data
from ..transformer import Transformer
from ..translator import Translator, load
from .history import History, Row
from .processes import Processes, processes
from .recipe import Recipe
from .trainer import Trainer, train

KEPT = "checkpoints"
SCORED = 200  # sentences, for BLEU and chrF on the way
TRIED = 2  # steps, for a first estimate
TABLES = ("data", "model", "training")  # a recipe's
SIZES = {  # of models for files: d_model, n_heads, n_layers; tokens, rate, warmup, steps
    "tiny": (128, 4, 2, 2048, 4e-3, 400, 4_000),
    "small": (256, 4, 4, 4096, 2e-3, 1_000, 20_000),
    "base": (512, 8, 6, 8192, 7e-4, 4_000, 100_000),
}

Tables = dict[str, dict[str, Any]]


def train_files(
    train: Sequence[Path | str],
    valid: Sequence[Path | str] | None = None,
    *,
    out: Path | str,
    size: str = "tiny",
    resume: bool = False,
    device: torch.device | str | None = None,
    progress: bool = True,
    **settings: Any,
) -> Translator:
    """Trains a translator on two files of yours, and returns the best model that it came by.

    `unmasked.train_files(("train.de", "train.en"), out="runs/mine").translate("Guten Tag!")`

    Args:
        train: source and target, a sentence a line, in UTF-8 or packed as .gz. Pairs with an empty
            side or a very long one are left out, and counted.
        valid: two more, for validation; else the last hundredth of `train` is kept for it.
        out: a folder for checkpoints, `history.csv`, its picture, and the model with the lowest
            validation loss, which stands there from the first validation on.
        size: tiny, small or base: of the model, with steps and rates that fit.
        resume: goes on where the folder's training was, with the same bits.
        device: the best there is, if none is named.
        progress: a bar, below the lines that say how it goes.
        settings: `vocabulary` (8000), `lowercase` (False), `max_length` (256 tokens), and whatever
            `Recipe` and `TransformerConfig` have: `steps`, `patience` (5 validations), `d_model`.
    """
    files = {"train": train} if valid is None else {"train": train, "valid": valid}
    texts = {k: [*map(str, v)] if isinstance(v, list | tuple) else v for k, v in files.items()}
    recipe: dict[str, dict[str, Any]] = {"data": {"name": "files", **texts}}
    for table, kind in (("model", TransformerConfig), ("training", Recipe)):
        recipe[table] = {k: settings.pop(k) for k in kind.__dataclass_fields__ if k in settings}
    recipe["data"] |= settings
    place = torch.device(device) if device is not None else best_device()
    with torch.random.fork_rng():
        run(sized(recipe, size), Path(out), place, resume=resume, progress=progress)
    return load(out)


def sized(recipe: Tables, size: str | None = None) -> Tables:
    """With what a model for files of this size has, where the recipe does not say otherwise."""
    if recipe["data"].get("name") != "files":
        if size is not None:
            raise invalid("--size", "--train beside it", "none", "it is for files of yours")
        return recipe
    check_choice("size", size or "tiny", tuple(SIZES))
    width, heads, layers, tokens, rate, warmup, steps = SIZES[size or "tiny"]
    model = {"d_model": width, "n_heads": heads, "n_layers": layers, "d_ff": 4 * width,
             "dropout": 0.1, "norm": "pre", "tie_embeddings": True, "embedding_std": width**-0.5,
             "max_len": recipe["data"].get("max_length", 256)}  # fmt: skip
    training = {"steps": steps, "tokens": tokens, "rate": rate, "warmup": warmup, "patience": 5}
    return {"data": recipe["data"], "model": model | recipe["model"],
            "training": training | recipe["training"]}  # fmt: skip


def run(
    recipe: Tables,
    out: Path,
    device: torch.device,
    command: str = "unmasked.train_files",
    *,
    every: int | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    **options: Any,
) -> bool:
    """Trains what a recipe asks for; keeps the last model, or of one's own files the best. Returns
    whether this process is the first, or alone.
    """
    settings = build(Recipe, "training", recipe["training"])
    where = begin(out, resume)  # refused before a long text is read
    data = load_data(**recipe["data"])
    torch.manual_seed(settings.seed)
    translator = Translator(made_for(data, recipe["model"]), data.source, data.target)
    translator.about = {"recipe": recipe, "command": command, "machine": machine(device)}
    model, corpus = translator.model, translator.corpus(data.training)
    files = recipe["data"]["name"] == "files"
    seen = Validation(translator, data, corpus, settings, out) if data.validation else None
    if files:
        often = max(1, min(settings.steps // 20, 1000))
        every, checkpoint_every = every or often, checkpoint_every or often
    with processes(device) as group:
        if group.first:
            size = f"{model.count_parameters():,} parameters, {len(data.training):,} pairs"
            many = f"{group.count} process{'es' * (group.count > 1)}"
            print(*data.notes, f"{size}, {many} on {group.device}{where}", sep="\n", flush=True)
        expected = estimate(model.to(group.device), corpus, settings, group) if files else ""
        if group.first and files:
            print(expected, flush=True)
        history = train(
            model, corpus, settings, watch=seen.watch if seen else None,
            report=seen.report if seen and files else None, every=every or 50, folder=out / KEPT,
            checkpoint_every=checkpoint_every or 500, resume=resume, device=group.device, **options,
        )  # fmt: skip
        if group.first:
            history.write(out / "history.csv")
            if seen and files:
                seen.finish(history)
            else:
                translator.save(out)
                print(history.table(last=5))
        return group.first


class Validation:
    """What `train` is given to watch, and to report to."""

    def __init__(
        self, translator: Translator, data: Data, corpus: Corpus, recipe: Recipe, out: Path
    ) -> None:
        self.made, self.corpus, self.recipe, self.out = translator, corpus, recipe, out
        self.held_out = translator.corpus(data.validation)
        scored = translator.data["name"] == "files" and find_spec("sacrebleu")
        self.scored = data.validation[:SCORED] if scored else ()
        self.spent = 0.0  # seconds on the last validation

    @cached_property
    def batches(self) -> int:
        """Of an epoch."""
        return sum(1 for _ in self.corpus.epoch(0, self.recipe.tokens, self.recipe.seed))

    @cached_property
    def tokens(self) -> float:
        """Of a batch, on both sides, without padding."""
        return sum(len(side) for pair in self.corpus.pairs for side in pair) / self.batches

    def watch(self, step: int, model: Transformer) -> Row:
        """The loss of what was held out; after the first step BLEU and chrF, with sacrebleu."""
        self.began = time.perf_counter()
        self.seen = Translator(model, self.made.source, self.made.target, self.made.about)
        row = {"validation": mean_cross_entropy(model, self.held_out)}
        if step and self.scored:
            source, target = zip(*self.scored, strict=True)
            texts = self.seen.translate(source), target
            lowercase = getattr(self.made.source, "lowercase", True)
            for score in (bleu, chrf):
                row[score.__name__] = score(*texts, lowercase=lowercase).score
        return row

    def report(self, history: History) -> None:
        """Says what was measured; keeps the model if it is the best so far."""
        if step := history.rows[-1]["step"]:
            better = best_of(history) is history.rows[-1]
            if better:
                self.seen.about["best"] = history.rows[-1]
                self.seen.save(self.out)
            history.write(self.out / "history.csv")
            before, row = history.rows[-2:]
            done, seconds = step - before["step"], row["seconds"] - before.get("seconds", 0.0)
            speed = self.tokens * done / max(seconds - self.spent, 1e-9)
            left = tqdm.format_interval(seconds / done * (self.recipe.steps - step))
            where = f"step {step:,} of {self.recipe.steps:,}, epoch {step / self.batches:.1f}"
            values = f"loss {row['loss']:.3f}, {figures(row)}, {speed:,.0f} tokens/s, {left} left"
            tqdm.write(f"{where}: {values}{'; the best so far' * better}")
        self.spent = time.perf_counter() - self.began

    def finish(self, history: History) -> None:
        """Says which model is in the folder, and draws how it came about."""
        row, last = best_of(history), history.rows[-1]["step"]
        if last < self.recipe.steps:
            print(f"ended: {self.recipe.patience} validations in a row were no better")
        print(f"the best is of step {row['step']:,}: {figures(row)}")
        with suppress(ImportError):  # without matplotlib there is no picture
            history.plot("loss", "validation").save(self.out / "history.png")


def best_of(history: History) -> Row:
    """The row with the lowest validation loss, the first of several."""
    return min((row for row in history.rows if row["step"]), key=lambda row: row["validation"])


def figures(row: Row) -> str:
    scores = f", BLEU {row['bleu']:.1f}, chrF {row['chrf']:.1f}" if "bleu" in row else ""
    return f"perplexity {math.exp(min(row['validation'], 99)):.4g}{scores}"


def estimate(model: Transformer, corpus: Corpus, recipe: Recipe, group: Processes) -> str:
    """From a few steps of a copy, which is then forgotten: what the training will take."""
    trial = Trainer(deepcopy(model), corpus, replace(recipe, compile=False), group)
    for number in range(TRIED + 1):  # the first is slower
        if number == 1:
            began = time.perf_counter()
        trial.advance()
        trial.measured()  # waits for a GPU
    step = (time.perf_counter() - began) / TRIED
    whole = f"at most {tqdm.format_interval(step * recipe.steps)} for {recipe.steps:,}"
    memory = ""
    with suppress(ImportError):  # Windows does not say
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        if group.device.type == "cuda":
            most = torch.cuda.max_memory_allocated(group.device)
        memory = f", {most / 1e9:.1f} GB of memory"
    return f"about {step:.2g} s a step, {whole} (without validation){memory}"


def made_for(data: Data, sizes: Mapping[str, Any]) -> Transformer:
    """A new model with the data's vocabularies; too large a one is refused in a sentence."""
    vocabularies = {"source_vocab": len(data.source), "target_vocab": len(data.target)}
    config = build(TransformerConfig, "model", {**vocabularies, **sizes})
    try:
        return Transformer(config)
    except (RuntimeError, TypeError, MemoryError) as error:
        reason, fix = str(error).partition("\n")[0] or type(error).__name__, "make it smaller"
        raise invalid("[model]", "sizes that memory has room for", reason, fix) from None


def begin(out: Path, resume: bool) -> str:
    """Makes the folder, refuses to overwrite what is in it, and says where training begins."""
    kept = checkpoints(out / KEPT)
    if (kept and not resume) or ((out / CONFIG).exists() and not kept):
        fix = "--resume goes on; else choose another folder" if kept else "choose another folder"
        raise invalid("--out", "a folder without a training in it", out, fix)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = "choose another"
        raise invalid("--out", "a folder", f"{out} ({error.strerror})", fix) from None
    if resume:
        return f", from {kept[-1].name}" if kept else ", with nothing to resume"
    return ""


def build(kind: Any, table: str, values: Mapping[str, Any]) -> Any:
    """A dataclass from a table; as TOML has no None, "none" stands for it."""
    if unknown := set(values) - set(kind.__dataclass_fields__):
        known = ", ".join(kind.__dataclass_fields__)
        raise invalid(f"[{table}]", f"keys of {kind.__name__}", min(unknown), f"there are: {known}")
    return kind(**{key: None if value == "none" else value for key, value in values.items()})

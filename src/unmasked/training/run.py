"""Trains a translator on texts, and keeps the best model, checkpoint and history in a folder."""

import math
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from ..config import TransformerConfig
from ..errors import invalid, require_choice
from ..evaluation import bleu, chrf, mean_cross_entropy
from ..machine import device as best_device
from ..machine import machine
from ..storage.model import CONFIG, MODEL
from ..text.corpus import Corpus, StreamedCorpus
from ..text.sources import Data, load_data
from ..transformer import Transformer
from ..translator import Translator, load
from .history import History, Row
from .processes import Processes, processes
from .recipe import Recipe
from .trainer import CHECKPOINT, Trainer, train

SCORED = 200  # sentences that BLEU and chrF are measured on during training
NOTES = 20  # validations in a training, if `every` is not given
TRIED = 2  # steps that are timed for the first estimate
TABLES = ("data", "model", "training")  # the tables of a recipe
SIZES = {  # d_model, n_heads, n_layers; tokens, rate, warmup, steps
    "tiny": (128, 4, 2, 2048, 4e-3, 400, 4_000),
    "small": (256, 4, 4, 4096, 2e-3, 1_000, 20_000),
    "base": (512, 8, 6, 8192, 7e-4, 4_000, 100_000),
}
FROM = {"steps": 300, "tokens": 2048, "rate": 3e-4, "warmup": 40, "patience": 5}  # with `start`
CHOSEN = ("beam_size", "length_penalty", "normalize")  # kept of the model in `start`

Tables = dict[str, dict[str, Any]]


def train_files(
    source: Path | str,
    target: Path | str,
    *,
    out: Path | str,
    valid: tuple[Path | str, Path | str] | None = None,
    size: str | None = None,
    config: TransformerConfig | Mapping[str, Any] | None = None,
    recipe: Recipe | Mapping[str, Any] | None = None,
    start: Translator | Path | str | None = None,
    resume: bool = False,
    device: torch.device | str | None = None,
    progress: bool = True,
    vocabulary: int | None = None,
    lowercase: bool | None = None,
    max_length: int | None = None,
) -> Translator:
    """Trains a translator on two files of yours, and returns the best model of the training.

    `unmasked.train_files("train.de", "train.en", out="runs/mine").translate("Guten Tag!")`

    Args:
        source, target: files with a sentence a line, in UTF-8 or packed as .gz. Pairs with an empty
            or a very long side are left out and counted. Files of more than 100,000 pairs are read
            as the training goes, in portions that are shuffled: shuffle the files.
        valid: two files for validation; without them a tenth of the distinct pairs (at most 200, or
            a hundredth of many) is drawn by the recipe's seed and held out.
        out: the folder for `model.safetensors`, which after each validation has the model with
            the lowest validation loss, `checkpoint.safetensors`, `history.csv`, and its picture.
        size: tiny (the default), small or base; also decides the steps and rates.
        config: changes to the size's configuration, or a whole `TransformerConfig`.
        recipe: changes to the size's recipe, such as `{"steps": 8000}`, or a whole `Recipe`.
        start: a translator, or a name for `unmasked.load`, whose training goes on with these texts
            and its own vocabulary; the default recipe then has fewer steps and a lower rate.
        resume: continues the folder's training as if never stopped; with more `steps`, also one
            that had ended.
        device: the best available one, unless one is named.
        progress: shows a bar, below the lines that are printed.
        vocabulary, lowercase, max_length: by default at most 8,000 subwords, with upper case, and
            pairs of at most 256 tokens.
    """
    if vocabulary is None and isinstance(config, TransformerConfig):
        vocabulary = config.source_vocab
    data = {"vocabulary": vocabulary, "lowercase": lowercase, "max_length": max_length,
            "valid": valid and [str(file) for file in valid]}  # fmt: skip
    said = {name: value for name, value in data.items() if value is not None}
    tables = {"data": {"name": "files", "train": [str(source), str(target)], **said},
              "model": as_table(config), "training": as_table(recipe)}  # fmt: skip
    place = torch.device(device) if device is not None else best_device()
    with torch.random.fork_rng():
        run(sized(tables, size, start), Path(out), place, start=start, resume=resume,
            progress=progress)  # fmt: skip
    return load(Path(out) / MODEL)


def as_table(values: Recipe | TransformerConfig | Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(values or {}) if isinstance(values, Mapping | None) else asdict(values)


def sized(tables: Tables, size: str | None = None, start: object = None) -> Tables:
    """Returns a recipe's tables, completed by the defaults for a model's size or for `start`."""
    if tables["data"].get("name") != "files":
        for name, value in (("size", size), ("start", start)):
            if value is not None:
                raise invalid(name, "files of yours beside it", "none", "leave it out, or name two")
        return tables
    if start is not None:
        if size is not None or tables["model"]:
            fix = "the model is the one that it starts from: leave it out"
            raise invalid("size" if size else "config", "none beside start", "one", fix)
        return {**tables, "training": FROM | tables["training"]}
    require_choice("size", size or "tiny", tuple(SIZES))
    width, heads, layers, tokens, rate, warmup, steps = SIZES[size or "tiny"]
    model = {"d_model": width, "n_heads": heads, "n_layers": layers, "d_ff": 4 * width,
             "dropout": 0.1, "norm": "pre", "tie_embeddings": True, "embedding_std": width**-0.5,
             "max_len": tables["data"].get("max_length", 256)}  # fmt: skip
    training = {"steps": steps, "tokens": tokens, "rate": rate, "warmup": warmup, "patience": 5}
    return {"data": tables["data"], "model": model | tables["model"],
            "training": training | tables["training"]}  # fmt: skip


def run(
    tables: Tables,
    out: Path,
    device: torch.device,
    command: str = "unmasked.train_files",
    *,
    start: Translator | Path | str | None = None,
    every: int | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    progress: bool = True,
) -> bool:
    """Trains the model of a recipe's tables; returns True in the process of rank 0, else False.

    The folder `out` then holds the best model, or, without validation sentences, the last one.
    """
    recipe = build(Recipe, "training", tables["training"])
    where = begin(out, resume)  # raises before a long text is read
    data, translator = prepared(tables, recipe, start)
    translator.about |= {"recipe": tables, "command": command, "machine": machine(device)}
    model, corpus = translator.model, data.corpus()
    often = max(1, min(recipe.steps // NOTES, 1000)) if every is None else every
    seen = Validation(translator, data, corpus, recipe, out)
    with processes(device) as group:
        expected = estimate(model.to(group.device), corpus, recipe, group)
        if group.first:
            many = f"{group.count} process{'es' * (group.count > 1)}"
            about = f"{model.count_parameters():,} parameters, {seen.pairs:,} pairs, {many}"
            lines = (*data.notes, *seen.notes, f"{about} on {group.device}{where}", expected)
            print(*lines, sep="\n", flush=True)
        history = train(
            model, corpus, recipe, watch=seen.watch, report=seen.report, every=often, folder=out,
            checkpoint_every=checkpoint_every or often, resume=resume, same=seen.same,
            device=group.device, progress=progress,
        )  # fmt: skip
        if group.first:
            seen.finish(history)
        return group.first


def prepared(
    tables: Tables, recipe: Recipe, start: Translator | Path | str | None
) -> tuple[Data, Translator]:
    """Returns a recipe's data and the translator to train: a new one, or a copy of `start`."""
    options = dict(tables["data"])
    name = options.pop("name")
    more: dict[str, Any] = {"seed": recipe.seed} if name == "files" else {}
    if start is None:
        data = load_data(name, options, **more)
        torch.manual_seed(recipe.seed)
        return data, Translator(made_for(data, tables["model"]), data.source, data.target)
    begun = deepcopy(start if isinstance(start, Translator) else load(start))
    options.setdefault("max_length", min(256, begun.model.config.max_len))
    data = load_data(name, options, **more, words=(begun.source, begun.target))
    begun.about = {name: begun.about[name] for name in CHOSEN if name in begun.about}
    begun.about["start"] = "in memory" if isinstance(start, Translator) else str(start)
    return data, begun


class Validation:
    """A Validation measures a model during `train`, saves the best one and prints the progress."""

    def __init__(
        self, translator: Translator, data: Data, corpus: Corpus, recipe: Recipe, out: Path
    ) -> None:
        self.made, self.corpus, self.recipe, self.out = translator, corpus, recipe, out
        self.held_out = translator.corpus(data.validation) if data.validation else None
        self.same = {"validation": self.held_out.fingerprint() if self.held_out else None}
        self.scored = data.validation[:SCORED] if find_spec("sacrebleu") else ()
        self.pairs, self.notes = len(data.training), []
        if isinstance(corpus, StreamedCorpus):
            what = f"{corpus.buffer:,} pairs at a time, none of more than {data.longest} tokens"
            self.notes.append(f"read as it goes, {what}")
        elif long := self.pairs - len(corpus):
            self.notes.append(f"training: left out {long:,} of more than {data.longest} tokens")
            self.pairs -= long
        self.spent = 0.0  # seconds that the last validation took

    @cached_property
    def epoch(self) -> tuple[float, float]:
        """Returns batches an epoch and tokens a batch, estimated from the first buffer of pairs."""
        buffer = next(self.corpus.buffers())
        first = Corpus(*zip(*buffer, strict=True))
        batches = sum(1 for _ in first.epoch(0, self.recipe.tokens, self.recipe.seed))
        tokens = sum(len(side) for pair in buffer for side in pair)
        return batches * self.pairs / len(buffer), tokens / batches

    def watch(self, step: int, model: Transformer) -> Row:
        """Returns a model's validation loss; after the first step, BLEU and chrF (sacrebleu)."""
        self.began = time.perf_counter()
        self.seen = Translator(model, self.made.source, self.made.target, self.made.about)
        row = {"validation": mean_cross_entropy(model, self.held_out)} if self.held_out else {}
        if self.scored and (step or "start" in self.made.about):
            source, target = zip(*self.scored, strict=True)
            texts = self.seen.translate(source), target
            lowercase = getattr(self.made.source, "lowercase", True)
            for score in (bleu, chrf):
                row[score.__name__] = score(*texts, lowercase=lowercase).score
        return row

    def report(self, history: History) -> None:
        """Prints the last row, writes history.csv, and saves the model if it is the best so far."""
        row: Row = history.rows[-1] if history.rows else {"step": 0}
        step, better = int(row["step"]), not history.rows or best_of(history) is row
        if better:
            self.seen.about["best"] = row
            self.seen.save(self.out / MODEL)
        history.write(self.out / "history.csv")
        if step:
            before: Row = history.rows[-2] if len(history.rows) > 1 else {"step": 0}
            done, seconds = step - before["step"], row["seconds"] - before.get("seconds", 0.0)
            batches, tokens = self.epoch
            speed = tokens * done / max(seconds - self.spent, 1e-9)
            left = tqdm.format_interval(seconds / done * (self.recipe.steps - step))
            where = f"step {step:,} of {self.recipe.steps:,}, epoch {step / batches:.1f}"
            values = f"loss {row['loss']:.3f}{figures(row)}, {speed:,.0f} tokens/s, {left} left"
            known = "; the best so far" * (better and self.held_out is not None)
            tqdm.write(f"{where}: {values}{known}")
        elif row.get("validation"):
            tqdm.write(f"before the first step: {figures(row).removeprefix(', ')}")
        self.spent = time.perf_counter() - self.began

    def finish(self, history: History) -> None:
        """Prints which step's model is in the folder, and draws the history into history.png."""
        row, last = best_of(history), history.rows[-1]["step"]
        if last < self.recipe.steps:
            print(f"ended: {self.recipe.patience} validations in a row were no better")
        if self.held_out:
            print(f"the best is of step {int(row['step']):,}{figures(row)}")
        with suppress(ImportError):  # without matplotlib there is no picture
            columns = [name for name in ("loss", "validation") if name in history.names()]
            history.plot(*columns).save(self.out / "history.png")


def best_of(history: History) -> Row:
    """Returns the history's first row with the lowest validation loss, or else its last row."""
    rows = [row for row in history.rows if "validation" in row]
    return min(rows, key=lambda row: row["validation"]) if rows else history.rows[-1]


def figures(row: Row) -> str:
    said = ""
    if "validation" in row:
        said += f", perplexity {math.exp(min(row['validation'], 99)):.4g}"
    if "bleu" in row:
        said += f", BLEU {row['bleu']:.1f}, chrF {row['chrf']:.1f}"
    return said


def estimate(model: Transformer, corpus: Corpus, recipe: Recipe, group: Processes) -> str:
    """Returns a line on the training's time and memory, from a few steps of a copied model."""
    trial = Trainer(deepcopy(model), corpus, replace(recipe, compile=False), group)
    for number in range(TRIED + 1):
        if number == 1:  # the first step is slower, and not timed
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
    """Returns a new model for the data's vocabularies; raises ValueError if memory is too small."""
    vocabularies = {"source_vocab": len(data.source), "target_vocab": len(data.target)}
    config = build(TransformerConfig, "model", {**sizes, **vocabularies})
    try:
        return Transformer(config)
    except (RuntimeError, TypeError, MemoryError) as error:
        reason, fix = str(error).partition("\n")[0] or type(error).__name__, "make it smaller"
        raise invalid("model", "sizes that memory has room for", reason, fix) from None


def begin(out: Path, resume: bool) -> str:
    """Makes the folder and returns a remark on resuming; raises ValueError if it is in use."""
    kept = (out / CHECKPOINT).exists()
    if (kept and not resume) or (not kept and any((out / x).exists() for x in (CONFIG, MODEL))):
        fix = "resume that training, or " * kept + "choose another folder"
        raise invalid("out", "a folder without a training in it", out, fix)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise invalid("out", "a folder", f"{out} ({error.strerror})", "choose another") from None
    if resume:
        return ", from its checkpoint" if kept else ", with nothing to resume"
    return ""


def build(kind: Any, table: str, values: Mapping[str, Any]) -> Any:
    """Makes a Recipe or TransformerConfig of a table; raises ValueError for an unknown key."""
    if unknown := set(values) - set(kind.__dataclass_fields__):
        known = ", ".join(kind.__dataclass_fields__)
        raise invalid(table, f"keys of {kind.__name__}", min(unknown), f"there are: {known}")
    return kind(**values)

"""From texts to a model in a folder: data, model, training, and what is kept."""

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

SCORED = 200  # sentences, for BLEU and chrF on the way
NOTES = 20  # validations, if nothing else is asked for
TRIED = 2  # steps, for a first estimate
TABLES = ("data", "model", "training")  # a recipe's
SIZES = {  # of models for files: d_model, n_heads, n_layers; tokens, rate, warmup, steps
    "tiny": (128, 4, 2, 2048, 4e-3, 400, 4_000),
    "small": (256, 4, 4, 4096, 2e-3, 1_000, 20_000),
    "base": (512, 8, 6, 8192, 7e-4, 4_000, 100_000),
}
FROM = {"steps": 300, "tokens": 2048, "rate": 3e-4, "warmup": 40, "patience": 5}  # a trained model
CHOSEN = ("beam_size", "length_penalty", "normalize")  # what a model takes from where it began

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
    """Trains a translator on two files of yours, and returns the best model that it came by.

    `unmasked.train_files("train.de", "train.en", out="runs/mine").translate("Guten Tag!")`

    Args:
        source, target: a sentence a line, in UTF-8 or packed as .gz. Pairs with an empty side or a
            very long one are left out, and counted. Files of more than 100,000 pairs are read as
            the training goes, in portions that are shuffled: shuffle the files.
        valid: two more, for validation; else a tenth of the distinct pairs (at most 200, or a
            hundredth of many) is drawn by the recipe's seed and held out.
        out: a folder for `model.safetensors`, which from the first note on holds the model with the
            lowest validation loss, `checkpoint.safetensors`, `history.csv`, and its picture.
        size: tiny (if nothing is said), small or base: of the model, with steps and rates that fit.
        config: what `TransformerConfig` has otherwise, or a whole one.
        recipe: what `Recipe` has otherwise, or a whole one: `{"steps": 8000, "patience": 3}`.
        start: a translator, or what `unmasked.load` takes, whose training goes on with these texts,
            in its own words; its recipe has fewer steps and a lower rate.
        resume: goes on where the folder's training was, with the same bits; with more `steps` also
            where it had ended.
        device: the best there is, if none is named.
        progress: a bar, below the lines that say how it goes.
        vocabulary, lowercase, max_length: 8,000 subwords at most, with upper case, and pairs of at
            most 256 tokens, if nothing else is said.
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
    """Adds what a model for files of this size has, where the tables do not say otherwise."""
    files = tables["data"].get("name") == "files"
    for name, value in (("size", size), ("start", start)):
        if value is not None and not files:
            raise invalid(name, "files of yours beside it", "none", "leave it out, or name two")
    if not files:
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
    """Trains what the tables ask for. Returns whether this process is the first, or alone.

    The folder holds the best model, or, where nothing is held out, the last one.
    """
    recipe = build(Recipe, "training", tables["training"])
    where = begin(out, resume)  # refused before a long text is read
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
    """Returns the data, and a new model for them, or a copy of the one to start from."""
    options = dict(tables["data"])
    name = options.pop("name")
    more: dict[str, Any] = {"seed": recipe.seed} if name == "files" else {}
    if start is None:
        data = load_data(name, options, **more)
        torch.manual_seed(recipe.seed)
        model = made_for(data, tables["model"])
        return data, Translator(model, data.source, data.target)
    begun = deepcopy(start if isinstance(start, Translator) else load(start))
    options.setdefault("max_length", min(256, begun.model.config.max_len))
    data = load_data(name, options, **more, words=(begun.source, begun.target))
    begun.about = {name: begun.about[name] for name in CHOSEN if name in begun.about}
    begun.about["start"] = "in memory" if isinstance(start, Translator) else str(start)
    return data, begun


class Validation:
    """What `train` is given to watch, and to report to."""

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
        self.spent = 0.0  # seconds on the last validation

    @cached_property
    def epoch(self) -> tuple[float, float]:
        """How many batches an epoch has, and a batch tokens: judged by the first buffer."""
        buffer = next(self.corpus.buffers())
        first = Corpus(*zip(*buffer, strict=True))
        batches = sum(1 for _ in first.epoch(0, self.recipe.tokens, self.recipe.seed))
        tokens = sum(len(side) for pair in buffer for side in pair)
        return batches * self.pairs / len(buffer), tokens / batches

    def watch(self, step: int, model: Transformer) -> Row:
        """The loss of what was held out; after the first step BLEU and chrF, with sacrebleu."""
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
        """Says what was measured; keeps the model if it is the best so far."""
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
        """Says which model is in the folder, and draws how it came about."""
        row, last = best_of(history), history.rows[-1]["step"]
        if last < self.recipe.steps:
            print(f"ended: {self.recipe.patience} validations in a row were no better")
        if self.held_out:
            print(f"the best is of step {int(row['step']):,}{figures(row)}")
        with suppress(ImportError):  # without matplotlib there is no picture
            columns = [name for name in ("loss", "validation") if name in history.names()]
            history.plot(*columns).save(self.out / "history.png")


def best_of(history: History) -> Row:
    """The row with the lowest validation loss, the first of several; the last, if none has one."""
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
    config = build(TransformerConfig, "model", {**sizes, **vocabularies})
    try:
        return Transformer(config)
    except (RuntimeError, TypeError, MemoryError) as error:
        reason, fix = str(error).partition("\n")[0] or type(error).__name__, "make it smaller"
        raise invalid("model", "sizes that memory has room for", reason, fix) from None


def begin(out: Path, resume: bool) -> str:
    """Makes the folder, refuses to overwrite what is in it, and says where training begins."""
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
    """Makes a dataclass of a table; names a key that it does not have."""
    if unknown := set(values) - set(kind.__dataclass_fields__):
        known = ", ".join(kind.__dataclass_fields__)
        raise invalid(table, f"keys of {kind.__name__}", min(unknown), f"there are: {known}")
    return kind(**values)

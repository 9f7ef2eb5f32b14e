"""Trains a model and keeps it in a folder; killed at any time, it goes on where it was."""

from __future__ import annotations

import argparse
import shlex
import tomllib
from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import torch

from ..config import TransformerConfig
from ..errors import check_whole, invalid
from ..evaluation import mean_cross_entropy
from ..machine import machine
from ..storage.checkpoint import checkpoints
from ..storage.model import CONFIG
from ..text.sources import Data, load_data
from ..training.history import History
from ..training.processes import Processes, processes
from ..training.recipe import Recipe
from ..training.trainer import train
from ..transformer import Transformer
from ..translator import Translator
from .options import add_device, chosen_device, command, folder, program

EXAMPLE = """python -m unmasked train --preset phrasebook --out runs/phrasebook
  python -m unmasked train --preset phrasebook --out runs/phrasebook --resume
  python -m unmasked train --config my.toml --out runs/my --set training.seed=1
  torchrun --nproc-per-node 2 -m unmasked train --config my.toml --out runs/two

my.toml:
  [data]
  name = "phrasebook"
  count = 40000
  [model]
  d_model = 64
  n_heads = 4
  n_layers = 2
  d_ff = 256
  [training]
  steps = 1200"""
RECIPE = ("data", "model", "training")  # a recipe's tables
KEPT = "checkpoints"
PRESETS = resources.files("unmasked") / "recipes"


def main(words: Sequence[str]) -> None:
    parser = command("train", __doc__ or "", EXAMPLE)
    options = arguments(parser, words)
    device = chosen_device(options.device)
    recipe = tables(options)
    settings = build(Recipe, "training", recipe["training"])
    data = load_data(**recipe["data"])
    torch.manual_seed(settings.seed)
    model = made_for(data, recipe["model"])
    translator = Translator(model, data.source, data.target, about(recipe, words, device))
    where = begin(options.out, options.resume)
    with processes(device) as group:
        if group.first:
            size = f"{model.count_parameters():,} parameters, {len(data.training):,} pairs"
            many = f"{group.count} process{'es' * (group.count > 1)}"
            print(f"{size}, {many} on {group.device}{where}", flush=True)
        history = run(translator, data, settings, options, group)
        if group.first:
            history.write(options.out / "history.csv")
            translator.save(options.out)
            print(history.table(last=5))
            print(f'the model is in {options.out}: {program()} info "{options.out}"')


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    presets = sorted(path.name.removesuffix(".toml") for path in PRESETS.iterdir())
    parser.add_argument("--preset", choices=presets, metavar="NAME",
                        help=f"a recipe of the package: {', '.join(presets)}")  # fmt: skip
    parser.add_argument("--config", type=Path, metavar="FILE",
                        help="a recipe of yours: a TOML file as below")  # fmt: skip
    parser.add_argument("--out", type=folder, required=True, metavar="FOLDER",
                        help="for all it writes")  # fmt: skip
    parser.add_argument("--resume", action="store_true", help="go on where FOLDER's training was")
    parser.add_argument("--set", type=assignment, action="append", default=[],
                        metavar="TABLE.KEY=VALUE",
                        help='as in training.seed=1; "none" is no value')  # fmt: skip
    add_device(parser)
    parser.add_argument("--every", type=int, default=50, metavar="STEPS",
                        help="note the loss (50)")  # fmt: skip
    parser.add_argument("--checkpoint-every", type=int, default=500, metavar="STEPS",
                        help="keep what --resume needs (500)")  # fmt: skip
    parser.add_argument("--tensorboard", action="store_true", help="also write FOLDER/tensorboard")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args(words)
    if options.preset is None and options.config is None:
        parser.error(f"give --preset ({', '.join(presets)}) or --config FILE")
    check_whole("--every", options.every)
    check_whole("--checkpoint-every", options.checkpoint_every)
    return options


def made_for(data: Data, sizes: dict[str, Any]) -> Transformer:
    """A new model with the data's vocabularies; too large a one is refused in a sentence."""
    vocabularies = {"source_vocab": len(data.source), "target_vocab": len(data.target)}
    config = build(TransformerConfig, "model", {**vocabularies, **sizes})
    try:
        return Transformer(config)
    except (RuntimeError, TypeError, MemoryError) as error:
        reason, fix = str(error).partition("\n")[0] or type(error).__name__, "make it smaller"
        raise invalid("[model]", "sizes that memory has room for", reason, fix) from None


def run(
    translator: Translator, data: Data, settings: Recipe, options: Any, group: Processes
) -> History:
    """The training, with the loss on the validation sentences where there are some."""
    watch = None
    if data.validation:
        held_out = translator.corpus(data.validation)
        watch = lambda _, seen: {"validation": mean_cross_entropy(seen, held_out)}  # noqa: E731
    return train(
        translator.model, translator.corpus(data.training), settings,
        watch=watch,
        folder=options.out / KEPT, resume=options.resume, device=group.device,
        every=options.every, checkpoint_every=options.checkpoint_every,
        progress=not options.quiet,
        tensorboard_folder=options.out / "tensorboard" if options.tensorboard else None,
    )  # fmt: skip


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


# --- The recipe -------------------------------------------------------------------------------


def tables(options: Any) -> dict[str, dict[str, Any]]:
    """The preset's, then the file's, then what --set says."""
    recipe: dict[str, dict[str, Any]] = {table: {} for table in RECIPE}
    preset = PRESETS / f"{options.preset}.toml" if options.preset else None
    for path in (preset, options.config):
        for table, values in (read_toml(path) if path else {}).items():
            recipe[table] |= values
    for table, key, value in options.set:
        recipe[table][key] = value
    if "name" not in recipe["data"]:
        raise invalid("[data]", "a name, such as phrasebook", "none", "add name = … to [data]")
    return recipe


def read_toml(path: Path | Traversable) -> dict[str, dict[str, Any]]:
    """A recipe's tables, and nothing else."""
    if isinstance(path, Path) and path.exists() and not path.is_file():
        got = "a folder" if path.is_dir() else "no regular file"
        raise invalid(str(path), "a TOML file", got, "check the path")
    try:
        recipe = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise invalid(str(path), "a TOML file", error.strerror, "check the path") from None
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of numbers without end
        raise invalid(str(path), "TOML", error, "mend what is there") from None
    for name, table in recipe.items():
        if name not in RECIPE or not isinstance(table, dict):
            expected = f"tables among [{'], ['.join(RECIPE)}]"
            got = f"[{name}]" if isinstance(table, dict) else f"{name} = {table!r}"
            raise invalid(str(path), expected, got, "put it under one of these")
    return recipe


def assignment(text: str) -> tuple[str, str, Any]:
    """`training.steps=500` → table, key, and the value read as TOML (else as plain text)."""
    where, equals, value = text.partition("=")
    table, _, key = where.strip().partition(".")
    if not equals or table not in RECIPE or not key:
        tables = ", ".join(RECIPE)
        raise argparse.ArgumentTypeError(f"{text!r} is not like training.steps=500 ({tables})")
    try:
        return table, key, tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return table, key, value


def build(kind: Any, table: str, values: dict[str, Any]) -> Any:
    """A dataclass from a table; as TOML has no None, "none" stands for it."""
    if unknown := set(values) - set(kind.__dataclass_fields__):
        known = ", ".join(kind.__dataclass_fields__)
        raise invalid(f"[{table}]", f"keys of {kind.__name__}", min(unknown), f"there are: {known}")
    return kind(**{key: None if value == "none" else value for key, value in values.items()})


def about(recipe: dict[str, Any], words: Sequence[str], device: torch.device) -> dict[str, Any]:
    """What the weights came from, kept beside them."""
    command = shlex.join(["python", "-m", "unmasked", "train", *words])
    return {
        "recipe": recipe,
        "command": command.encode(errors="replace").decode(),  # a path need not be UTF-8
        "machine": machine(device),
    }

"""Trains a model and keeps it in a folder; killed at any time, it goes on where it was."""

from __future__ import annotations

import datetime
import platform
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from ..config import TransformerConfig
from ..data.sources import load_data
from ..training import Recipe, processes, train
from ..transformer import Transformer
from ..translator import Translator
from ..validation import invalid
from .options import assignment, parse, parser, read_toml

EXAMPLE = """python -m unmasked train --preset phrasebook --out runs/phrasebook
  python -m unmasked train --config my.toml --out runs/mine --set training.steps=500 --resume
  torchrun --nproc-per-node 2 -m unmasked train --preset phrasebook --out runs/two"""
TABLES = ("data", "model", "training")
PRESETS = resources.files("unmasked") / "recipes"


def main(words: Sequence[str]) -> None:
    presets = sorted(path.name.removesuffix(".toml") for path in PRESETS.iterdir())
    made = parser("train", __doc__ or "", EXAMPLE)
    made.add_argument("--preset", choices=presets, help="a recipe of the package")
    made.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="for all it writes")
    made.add_argument("--resume", action="store_true", help="go on where FOLDER's training was")
    made.add_argument("--set", type=assignment, action="append", default=[],
                      metavar="TABLE.KEY=VALUE", help="as in training.seed=1")  # fmt: skip
    made.add_argument("--device", help="such as cpu or cuda (default: the best there is)")
    made.add_argument("--every", type=int, default=50, metavar="STEPS", help="note the loss (50)")
    made.add_argument("--checkpoint-every", type=int, default=500, metavar="STEPS", help="(500)")
    made.add_argument("--tensorboard", action="store_true", help="also write FOLDER/tensorboard")
    made.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parse(made, "train", words)
    if options.preset is None and options.config is None:
        made.error(f"give --preset ({', '.join(presets)}) or --config FILE")
    recipe = tables(options)

    data = load_data(**recipe["data"])
    sizes = {"source_vocab": len(data.source), "target_vocab": len(data.target)}
    settings = build(Recipe, "training", recipe["training"])
    torch.manual_seed(settings.seed)
    model = Transformer(build(TransformerConfig, "model", {**sizes, **recipe["model"]}))
    translator = Translator(model, data.source, data.target, about(recipe, words))
    with processes(options.device) as group:
        if group.first:
            size = f"{model.count_parameters():,} parameters, {len(data.training):,} pairs"
            print(
                f"{size}, {group.count} process{'es' * (group.count > 1)} on {group.device}",
                flush=True,
            )
        history = train(
            model, translator.corpus(data.training), settings,
            folder=options.out / "checkpoints", resume=options.resume, device=group.device,
            every=options.every, checkpoint_every=options.checkpoint_every,
            progress=not options.quiet,
            tensorboard_folder=options.out / "tensorboard" if options.tensorboard else None,
        )  # fmt: skip
        if group.first:
            history.write(options.out / "history.csv")
            translator.save(options.out)
            print(history.table(last=5))
            print(f'the model is in {options.out}: python -m unmasked info "{options.out}"')


def tables(options: Any) -> dict[str, dict[str, Any]]:
    """The preset's, then the file's, then what --set says."""
    recipe: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    layers = [PRESETS / f"{options.preset}.toml"] if options.preset else []
    for path in [*layers, *([options.config] if options.config else [])]:
        for table, values in read_toml(path).items():
            if table in TABLES:
                recipe[table] |= values
            elif table not in ("train", "translate", "evaluate", "info"):
                fix = "the recipe's tables are data, model and training"
                raise invalid(str(path), "a table that is known", f"[{table}]", fix)
    for (table, key), value in options.set:
        if table not in TABLES:
            raise invalid(
                "--set", f"a table of {', '.join(TABLES)}", table, "as in training.seed=1"
            )
        recipe[table][key] = value
    if "name" not in recipe["data"]:
        raise invalid("data", "a name, such as phrasebook", "none", "add name = … to [data]")
    return recipe


def build(kind: Any, table: str, values: dict[str, Any]) -> Any:
    if unknown := set(values) - set(kind.__dataclass_fields__):
        known = ", ".join(kind.__dataclass_fields__)
        raise invalid(f"[{table}]", f"keys of {kind.__name__}", min(unknown), f"there are: {known}")
    return kind(**values)


def about(recipe: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """What the weights came from, kept beside them."""
    return {
        "recipe": recipe,
        "command": " ".join(["python -m unmasked train", *words]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": sys.platform,
    }

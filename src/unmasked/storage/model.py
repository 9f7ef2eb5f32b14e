"""A model's folder: a whole model is in it whatever happens, and reading it believes nothing.

`config.json` names the other files, with their sums. Files get names that no other saving gives,
and `config.json` is replaced last: the folder holds the model before or this one. What is read may
come from anywhere, so only files of these names are opened, sizes are compared with the weights
before anything is made of them, and whatever is wrong is said in one sentence.
"""

import json
import re
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import torch
from safetensors import SafetensorError
from torch import Tensor

from ..config import TransformerConfig
from ..errors import RefusedError, check_choice, check_type, invalid, printable
from ..layers import is_heard
from ..structure import differences
from ..tokens import Pieces, Subwords, Vocabulary, Words, same_words
from ..transformer import Transformer, without_numbers
from .files import (
    bytes_of,
    check_finite,
    check_shapes,
    digest,
    read_tensors,
    regular,
    shapes_in,
    shapes_of,
    tensors_of,
    text_of,
    write_tensors,
    write_whole,
)
from .marian import WEIGHTS, read_marian

FORMAT = "unmasked model 3"
CONFIG = "config.json"
OURS = re.compile(r"(model|tokenizer|source|target)(-[0-9a-f]{32})?\.(safetensors|json|spm)")
MARKED = re.compile(r"((model|tokenizer|source|target)-|\.unfinished-)[0-9a-f]{32}(\.[a-z]+)?")
DROPOUT = ("p", "dropout")  # whose probabilities may be others than configured
DTYPES = (None, torch.float16, torch.bfloat16, torch.float32, torch.float64)

Made = TypeVar("Made")


class Kept(NamedTuple):
    config: TransformerConfig
    tensors: dict[str, Tensor]
    source: Vocabulary
    target: Vocabulary
    about: dict[str, Any]


# --- Writing ----------------------------------------------------------------------------------


def write(path: Path, kept: Kept, dtype: torch.dtype | None = None) -> None:
    """Weights as safetensors, rounded to a `dtype`; all else as JSON."""
    check_choice("dtype", dtype, DTYPES)
    check_finite(kept.tensors, "train again at a lower rate, or go back to an earlier checkpoint")
    tensors = {name: x.detach().to("cpu", dtype) for name, x in kept.tensors.items()}
    check_finite(tensors, "the weights are too large for this dtype: choose bfloat16, or None")
    described: dict[str, Any] = {"format": FORMAT, "model": vars(kept.config), "about": kept.about}
    source, target = kept.source, kept.target
    beside: dict[str, bytes] = {}  # files of words
    if isinstance(source, Words) and isinstance(target, Words):
        described |= {"source": source.words, "target": target.words}
    elif isinstance(source, Subwords) and source is target:
        beside["tokenizer.json"] = f"{source.to_json()}\n".encode()
    elif isinstance(source, Pieces) and isinstance(target, Pieces) and same_words(source, target):
        described["words"] = source.words
        beside |= {"source.spm": source.model, "target.spm": target.model}
    else:
        fix = "give source and target the same object"
        raise invalid("target", "the source's own subwords", "others", fix)
    before: set[Path] = set()
    files: list[Path] = []
    try:
        path.mkdir(parents=True, exist_ok=True)
        weights = partial(write_tensors, tensors=tensors)
        files.append(write_whole(path, f"model-{uuid4().hex}.safetensors", weights))
        for name, content in beside.items():
            name = name.replace(".", f"-{uuid4().hex}.")
            files.append(write_whole(path, name, partial(Path.write_bytes, data=content)))
        described["sums"] = {file.name: digest(file) for file in files}
        text = json.dumps(described, indent=1, ensure_ascii=False, default=as_json)
        before = files_of(path)
        write_whole(path, CONFIG, lambda file: file.write_text(text + "\n", encoding="utf-8"))
    except (OSError, SafetensorError) as error:
        message = f"{path}: the model could not be written ({error})"
        raise OSError(f"{message}; choose a folder with space that you may write in") from error
    finally:
        delete(path, before.union(files))


def tensors_to_keep(model: Transformer) -> dict[str, Tensor]:
    """Collects the tensors from which `read` makes this model again; refuses other parts."""
    if any(parameter.is_meta for parameter in model.parameters()):
        fix = "move it from the meta device with to_empty, and give it weights"
        raise invalid("model", "parameters that have numbers", "some without", fix)
    twin, fix = without_numbers(model.config), "change the configuration, or use torch.save"
    if paths := differences(model, twin, DROPOUT):
        kinds = {path: f" ({type(part).__name__})" for path, part in model.named_modules()}
        got = f"another {paths[0]}{kinds.get(paths[0], '')}"
        raise invalid("model", "what its configuration makes", got, fix)
    own = dict(model.named_parameters(remove_duplicate=False))
    first: dict[int, str] = {}  # of the names of one parameter
    for name, parameter in twin.named_parameters(remove_duplicate=False):
        tied = own[first.setdefault(id(parameter), name)]
        if own[name] is not tied and not torch.equal(own[name], tied):
            raise invalid("model", f"a {name} that is tied as configured", "another", fix)
    if heard := [path or "the model" for path, part in model.named_modules() if is_heard(part)]:
        warnings.warn(
            f"what hooks do is not kept: there are some in {', '.join(heard)}", stacklevel=3
        )
    once: dict[int, Tensor] = {}  # what is shared, but not as configured, is written twice
    return {name: copied(own[name].detach(), once) for name in first.values()}


def copied(tensor: Tensor, once: dict[int, Tensor]) -> Tensor:
    """Copies a tensor that was met before."""
    return tensor if once.setdefault(tensor.data_ptr(), tensor) is tensor else tensor.clone()


def as_json(value: Any) -> Any:
    """NumPy's numbers as Python's, and whatever else as its text."""
    return value.item() if hasattr(value, "item") else str(value)


def files_of(folder: Path) -> set[Path]:
    """Those that a model's configuration names, if there is one: its weights and its words."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        kept = json.loads(text_of(folder / CONFIG))
        return {folder / Path(name).name for name in kept["sums"]}
    return set()


def weights_file(folder: Path) -> Path:
    files = [*files_of(folder), *(folder / name for name in WEIGHTS)]
    return next(file for file in files if file.suffix in (".safetensors", ".bin") and file.exists())


def delete(folder: Path, files: set[Path]) -> None:
    """Those of these that the configuration does not name; and what a killed saving left.

    A name is given once, so nobody will name again what was replaced. What another process may be
    saving just now is left for an hour, and what has a name of another kind for ever.
    """
    long_ago = time.time() - 3600
    with suppress(OSError):
        for file in sorted(set(folder.iterdir()) - files_of(folder)):
            with suppress(OSError):  # it takes space and does no harm
                replaced = file in files and OURS.fullmatch(file.name)
                if replaced or (MARKED.fullmatch(file.name) and file.stat().st_mtime < long_ago):
                    file.unlink()


# --- Reading ----------------------------------------------------------------------------------

DAMAGE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)


def read(path: Path, make: Callable[[Kept], Made]) -> Made:
    """What is made of a folder's model; of the new one if another is saved while it is read."""
    try:
        while True:
            text = text_of(path / CONFIG)
            try:
                return make(parsed(path, json.loads(text)))
            except Exception:
                if text_of(path / CONFIG) == text:
                    raise
    except OSError as error:
        fix = "give the folder that `python -m unmasked train` wrote"
        expected = f"a folder with {CONFIG} and the weights that it names"
        raise invalid(str(path), expected, f"{error.strerror or error}", fix) from None
    except RefusedError:
        raise
    except DAMAGE as error:
        got = printable(f"no {error}" if isinstance(error, KeyError) else str(error))
        fix = "its files are damaged or of another version: fetch or make them again"
        raise invalid(str(path), "a model's folder", got, fix) from None


def parsed(folder: Path, kept: Mapping[str, Any]) -> Kept:
    """The model that a configuration describes, from the files that it names."""
    if kept.get("model_type") == "marian":
        found = Kept(*read_marian(folder, kept))
        check_sizes(found.config, shapes_in(found.tensors))
        check_finite(found.tensors, "fetch the file again")
        return found
    if kept["format"] != FORMAT:
        raise ValueError(f"the format {kept['format']!r} instead of {FORMAT!r}")
    files: dict[str, Path] = {}
    shapes: dict[str, dict[str, list[int]]] = {}
    for name, total in kept["sums"].items():
        if not (named := OURS.fullmatch(name)):
            raise ValueError(f"a file {name!r}, which is none of a model's")
        if name.endswith(".safetensors") and (folder / name).exists():
            shapes[".safetensors"] = shapes_of(regular(folder / name))  # as long as its head says
        if digest(regular(folder / name)) != total:
            raise ValueError(f"a {name} that {CONFIG} does not belong to")
        files[named[1]] = folder / name
    config = TransformerConfig(**kept["model"])
    check_sizes(config, shapes[".safetensors"])
    tensors = read_tensors(files["model"])
    if strange := {x.dtype for x in tensors.values()}.difference(DTYPES):
        raise ValueError(f"weights of the type {min(map(str, strange))}")
    check_finite(tensors, "fetch or make the file again")
    check_type("about", kept["about"], dict)
    if "tokenizer" in files:
        joint = Subwords.from_json(text_of(files["tokenizer"]))
        return Kept(config, tensors, joint, joint, kept["about"])
    if "words" in kept:
        one, other = (Pieces(bytes_of(files[x]), kept["words"]) for x in ("source", "target"))
        return Kept(config, tensors, one, other, kept["about"])
    return Kept(config, tensors, Words(kept["source"]), Words(kept["target"]), kept["about"])


def check_sizes(config: TransformerConfig, shapes: Mapping[str, list[int]]) -> None:
    """Whether a file of weights has what a configuration says, before memory is taken for it."""
    layers = config.n_layers + config.decoder_layers
    if 10 * config.n_layers + 16 * config.decoder_layers > len(shapes):  # without any bias
        raise ValueError(f"{layers:,} layers and weights of {len(shapes)} tensors")
    try:
        own = tensors_of(without_numbers(config))
    except (RuntimeError, TypeError) as error:  # beyond what 64 bits can count
        reason = str(error).partition("\n")[0]
        raise ValueError(f"sizes that no memory has room for ({reason})") from None
    check_shapes(shapes_in(own), shapes)

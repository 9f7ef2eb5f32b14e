"""Keeps a translator in one file: weights, and in its header configuration, vocabularies and card.

A file may come from anywhere: sizes are compared with the weights before memory is taken, nothing
in the file is run, and an error says in one sentence what is wrong. Folders of version 0.3, whose
`config.json` names the other files, are read as well, and folders in OPUS-MT's format.
"""

import json
import re
import warnings
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from ..config import TransformerConfig
from ..errors import RefusedError, invalid, printable, require_choice, require_type
from ..layers import is_heard
from ..structure import differences
from ..tokens import Pieces, Subwords, Vocabulary, Words, same_words
from ..transformer import Transformer, without_numbers
from . import files
from .files import bytes_of
from .marian import read_marian
from .weights import require_finite, require_shapes, shapes_in, tensors_of

FORMAT, FOLDER = "unmasked model 4", "unmasked model 3"
MODEL, CONFIG = "model.safetensors", "config.json"
OURS = re.compile(r"(model|tokenizer|source|target)(-[0-9a-f]{32})?\.(safetensors|json|spm)")
DROPOUT = ("p", "dropout")  # attributes that may differ from the configuration
DTYPES = (None, torch.float16, torch.bfloat16, torch.float32, torch.float64)
DAMAGE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)

Made = TypeVar("Made")


class Kept(NamedTuple):
    config: TransformerConfig
    tensors: dict[str, Tensor]
    source: Vocabulary
    target: Vocabulary
    about: dict[str, Any]


# --- Writing ----------------------------------------------------------------------------------


def write(path: Path, kept: Kept, dtype: torch.dtype | None = None) -> None:
    """Writes a translator as one .safetensors file, its weights rounded to `dtype` if given."""
    require_choice("dtype", dtype, DTYPES)
    if path.suffix != ".safetensors":
        fix = f"call it {path / MODEL if path.is_dir() else f'{path}.safetensors'}"
        raise invalid("path", "a file's name that ends in .safetensors", repr(str(path)), fix)
    require_finite(kept.tensors, "train again at a lower rate, or go back to an earlier checkpoint")
    tensors = {name: x.detach().to("cpu", dtype) for name, x in kept.tensors.items()}
    require_finite(tensors, "the weights are too large for this dtype: choose bfloat16, or None")
    words = words_said(kept.source, kept.target)
    said = {"format": FORMAT, "model": vars(kept.config), **words, "about": kept.about}
    files.write(path, tensors, said)


def words_said(source: Vocabulary, target: Vocabulary) -> dict[str, Any]:
    if isinstance(source, Words) and isinstance(target, Words):
        return {"source": source.words, "target": target.words}
    if isinstance(source, Subwords) and source is target:
        return {"subwords": source.to_json()}
    if isinstance(source, Pieces) and isinstance(target, Pieces) and same_words(source, target):
        models = {"source": source.model, "target": target.model}
        return {"words": source.words, **{k: b64encode(x).decode() for k, x in models.items()}}
    fix = "give source and target the same object"
    raise invalid("target", "the source's own subwords", "others", fix)


def tensors_to_keep(model: Transformer) -> dict[str, Tensor]:
    """Returns weights by name, tied ones once; ValueError if modules are not as configured."""
    twin, fix = without_numbers(model.config), "change the configuration, or use torch.save"
    if paths := differences(model, twin, DROPOUT):
        kinds = {path: f" ({type(part).__name__})" for path, part in model.named_modules()}
        got = f"another {paths[0]}{kinds.get(paths[0], '')}"
        raise invalid("model", "what its configuration makes", got, fix)
    own = dict(model.named_parameters(remove_duplicate=False))
    first: dict[int, str] = {}  # the first name of each parameter
    for name, parameter in twin.named_parameters(remove_duplicate=False):
        tied = own[first.setdefault(id(parameter), name)]
        if own[name] is not tied and not torch.equal(own[name], tied):
            raise invalid("model", f"a {name} that is tied as configured", "another", fix)
    if heard := [path or "the model" for path, part in model.named_modules() if is_heard(part)]:
        where = ", ".join(heard)
        warnings.warn(f"what hooks do is not kept: there are some in {where}", stacklevel=3)
    tensors: dict[str, Tensor] = {}
    places = set()  # a file's tensors must not share memory
    for name in first.values():
        tensor = own[name].detach()
        tensors[name] = tensor.clone() if tensor.data_ptr() in places else tensor
        places.add(tensor.data_ptr())
    return tensors


# --- Reading ----------------------------------------------------------------------------------


def read(path: Path, make: Callable[[Kept], Made]) -> Made:
    """Returns `make(kept)` for the model in a file or folder; a damaged one raises ValueError."""
    try:
        return make(found_in(path))
    except OSError as error:
        expected = "a model's file, or the folder that `unmasked train` wrote"
        got = error.strerror or error
        raise invalid(str(path), expected, got, "check what is in it") from None
    except RefusedError:
        raise
    except DAMAGE as error:
        got = printable(f"no {error}" if isinstance(error, KeyError) else str(error))
        fix = "it is damaged or of another version: fetch or make it again"
        raise invalid(str(path), "a model", got, fix) from None


def found_in(path: Path) -> Kept:
    if not (path / CONFIG).exists():
        return parsed(path / MODEL if path.is_dir() else path)
    said = json.loads(bytes_of(path / CONFIG))
    if said.get("model_type") != "marian":
        return parsed(*of_folder(path, said))
    kept = Kept(*read_marian(path, said))
    require_sizes(kept.config, shapes_in(kept.tensors))
    require_finite(kept.tensors, "fetch the file again")
    return kept


def of_folder(folder: Path, said: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """Returns a version 0.3 folder's weights file, and `said`, its config.json, as a new header."""
    found: dict[str, Path] = {}
    for name in said["sums"]:
        if not (named := OURS.fullmatch(name)):
            raise ValueError(f"a file {name!r}, which is none of a model's")
        found[named[1]] = folder / name
    if said["format"] != FOLDER:
        raise ValueError(f"the format {said['format']!r} instead of {FOLDER!r}")
    if "tokenizer" in found:
        said["subwords"] = bytes_of(found["tokenizer"]).decode()
    for side in {"source", "target"} & found.keys():
        said[side] = b64encode(bytes_of(found[side])).decode()
    return found["model"], {**said, "format": FORMAT}


def parsed(path: Path, said: Any = None) -> Kept:
    """Reads a model from its weights file, with `said`, if given, in place of the header's JSON."""
    with files.opened(path) as file:
        said = files.said_in(file) if said is None else said
        found = said.get("format") if isinstance(said, Mapping) else said
        if found != FORMAT:
            raise ValueError(f"the format {found!r} instead of {FORMAT!r}")
        config = TransformerConfig(**said["model"])
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
        require_sizes(config, shapes)
        tensors = files.tensors_in(file)
    require_type("about", said["about"], dict)
    if strange := {x.dtype for x in tensors.values()}.difference(DTYPES):
        raise ValueError(f"weights of the type {min(map(str, strange))}")
    require_finite(tensors, "fetch or make the file again")
    return Kept(config, tensors, *words_in(said), said["about"])


def words_in(said: Mapping[str, Any]) -> tuple[Vocabulary, Vocabulary]:
    if "subwords" in said:
        joint = Subwords.from_json(said["subwords"])
        return joint, joint
    if "words" in said:
        one, other = (Pieces(b64decode(said[x]), said["words"]) for x in ("source", "target"))
        return one, other
    return Words(said["source"]), Words(said["target"])


def require_sizes(config: TransformerConfig, shapes: Mapping[str, list[int]]) -> None:
    """Raises ValueError unless these shapes are the configured model's; takes no memory for it."""
    layers = config.n_layers + config.decoder_layers
    if 10 * config.n_layers + 16 * config.decoder_layers > len(shapes):  # without biases
        raise ValueError(f"{layers:,} layers and weights of {len(shapes)} tensors")
    try:
        own = tensors_of(without_numbers(config))
    except (RuntimeError, TypeError) as error:  # beyond what 64 bits can count
        reason = str(error).partition("\n")[0]
        raise ValueError(f"sizes that no memory has room for ({reason})") from None
    require_shapes(shapes_in(own), shapes)

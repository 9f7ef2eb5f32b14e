"""Files that must be whole, and weights as safetensors, which hold nothing that runs."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ..errors import invalid

UNFINISHED = ".unfinished-"
WHOLE = 1 << 26  # bytes at most of what is no tensor


def text_of(path: Path) -> str:
    return bytes_of(path).decode()


def bytes_of(path: Path) -> bytes:
    if regular(path).stat().st_size > WHOLE:
        raise ValueError(f"a {path.name} of {path.stat().st_size:,} bytes")
    return path.read_bytes()


def regular(path: Path) -> Path:
    """A device or a pipe could be read for ever."""
    if path.exists() and not path.is_file():
        raise ValueError(f"a {path.name} that is no file")
    return path


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush(path: Path) -> None:
    """Waits until it is on the disk; a folder's names too, where the system can do that."""
    folder = path.is_dir()
    try:
        handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError:
        if not folder:
            raise


def write_whole(folder: Path, name: str, write: Callable[[Path], object]) -> Path:
    """A file that is whole or not there: written under another name, to the disk, then renamed."""
    file = folder / f"{UNFINISHED}{uuid4().hex}"
    try:
        file.touch()
        mode = file.stat().st_mode
        write(file)
        file.chmod(mode)  # safetensors writes files that only their owner may read
        flush(file)
        final = file.replace(folder / name)
        flush(folder)
        return final
    finally:
        file.unlink(missing_ok=True)


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """All that must be kept: what is tied once, and no table that can be computed again."""
    kept = set(module.state_dict(keep_vars=True))
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: tensor.detach() for name, tensor in named if name in kept}


def shapes_in(tensors: Mapping[str, Tensor]) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in tensors.items()}


def check_shapes(own: Mapping[str, list[int]], others: Mapping[str, list[int]]) -> None:
    """Whether others are the tensors of this very model."""
    if missing := own.keys() - others.keys():
        raise invalid("weights", f"a tensor {min(missing)!r}", "none", "take this model's own file")
    if unknown := others.keys() - own.keys():
        fix = "take this model's own file, and the configuration beside it"
        raise invalid("weights", "nothing that the model does not have", repr(min(unknown)), fix)
    for name, shape in others.items():
        if shape != own[name]:
            fix = "make the model with the configuration that is kept beside its weights"
            raise invalid(name, f"shape {own[name]}", shape, fix)


def check_finite(tensors: Mapping[str, Tensor], fix: str) -> None:
    for name, tensor in tensors.items():
        if not tensor.sum().isfinite() and not tensor.isfinite().all():  # the sum needs no memory
            what = "NaN" if tensor.isnan().any() else "an infinite one"
            raise invalid("weights", "finite numbers", f"{what} in {name}", fix)


def filled(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """As `set_tensors`, for a module on the meta device: these tensors become its own, uncopied."""
    check_shapes(shapes_in(tensors_of(module)), shapes_in(tensors))
    # Memory that is never touched. `to_empty` does the same, and takes a second to load SymPy.
    module._apply(lambda x: torch.empty(x.shape, dtype=x.dtype, device="cpu"))
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name, tensor in tensors.items():
        own[name].data = tensor.to(own[name].dtype)


def set_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Puts the numbers where `tensors_of` found them; refuses those of another model."""
    own = tensors_of(module)
    check_shapes(shapes_in(own), shapes_in(tensors))
    for name, tensor in tensors.items():
        own[name].copy_(tensor)


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: x.detach().cpu().contiguous() for name, x in tensors.items()}, path)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """In memory of their own: the file may be changed or deleted afterwards."""
    with opened(path) as file:
        return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118


def shapes_of(path: Path) -> dict[str, list[int]]:
    """Those of a file's tensors, from its head alone."""
    with opened(path) as file:
        return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        fix = "the file is damaged or of another kind: fetch or make it again"
        raise invalid(str(path), "a safetensors file", str(error), fix) from None
    except FileNotFoundError:
        raise invalid(str(path), "a file", "none", "check the path") from None

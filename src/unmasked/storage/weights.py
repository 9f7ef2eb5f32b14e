"""Takes the tensors out of a module, compares them with those of a file, and puts them in."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..errors import invalid


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Returns a module's tensors to keep, by name: tied ones once, none that is computed anew."""
    kept = set(module.state_dict(keep_vars=True))
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: tensor.detach() for name, tensor in named if name in kept}


def shapes_in(tensors: Mapping[str, Tensor]) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in tensors.items()}


def require_shapes(own: Mapping[str, list[int]], others: Mapping[str, list[int]]) -> None:
    """Raises ValueError unless a model's tensors and a file's have the same names and shapes."""
    if missing := own.keys() - others.keys():
        raise invalid("weights", f"a tensor {min(missing)!r}", "none", "take this model's own file")
    if unknown := others.keys() - own.keys():
        fix = "take this model's own file, and the configuration that is kept with it"
        raise invalid("weights", "nothing that the model does not have", repr(min(unknown)), fix)
    for name, shape in others.items():
        if shape != own[name]:
            fix = "make the model with the configuration that is kept with its weights"
            raise invalid(name, f"shape {own[name]}", shape, fix)


def require_finite(tensors: Mapping[str, Tensor], fix: str) -> None:
    for name, tensor in tensors.items():
        if not tensor.sum().isfinite() and not tensor.isfinite().all():  # the sum needs no memory
            what = "NaN" if tensor.isnan().any() else "an infinite one"
            raise invalid("weights", "finite numbers", f"{what} in {name}", fix)


def filled(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Makes tensors the parameters and buffers of a module on the meta device, without copying."""
    require_shapes(shapes_in(tensors_of(module)), shapes_in(tensors))
    # This memory is never touched. `to_empty` does the same, but takes a second to load SymPy.
    module._apply(lambda x: torch.empty(x.shape, dtype=x.dtype, device="cpu"))
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name, tensor in tensors.items():
        own[name].data = tensor.to(own[name].dtype)


def set_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copies tensors, as `tensors_of` returns them, into the module's own of the same names."""
    own = tensors_of(module)
    require_shapes(shapes_in(own), shapes_in(tensors))
    for name, tensor in tensors.items():
        own[name].copy_(tensor)

"""A reader's class of modules beside ours: the same weights, and then the same outputs?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor, nn

from unmasked_book.exercises.answering import NoAnswerError
from unmasked_book.exercises.compare import same_tensor

Kind = TypeVar("Kind", bound=nn.Module)


def scattered(module: Kind) -> Kind:
    """With random numbers in every parameter, so that no two norms and biases are alike."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module.eval()


def takes_weights(mine: Any, original: nn.Module, name: str) -> str | None:
    """Copies the weights of `original` into a reader's module, or says why they do not fit."""
    if not isinstance(mine, nn.Module):
        return f"not yet: {name} should be an nn.Module and is a {type(mine).__name__}."
    if not (vars(mine).get("_modules") or vars(mine).get("_parameters")):  # nothing but a name
        raise NoAnswerError
    have, wanted = (dict(m.named_parameters(remove_duplicate=False)) for m in (mine, original))
    for key, weight in wanted.items():
        if key not in have:
            return f"not yet: {name} has no parameter {key}."
        if have[key].shape != weight.shape:
            shapes = f"{list(have[key].shape)}, not {list(weight.shape)}"
            return f"not yet: {key} of {name} has shape {shapes}."
    if extra := sorted(have.keys() - wanted.keys()):
        return f"not yet: {name} has a parameter {extra[0]}, which is not asked for."
    mine.load_state_dict(original.state_dict(), strict=False)  # it may have buffers
    mine.eval()
    return None


def same_module(
    answer: Callable[..., Any], kind: type[nn.Module], sizes: tuple[Any, ...], *inputs: Tensor
) -> str | None:
    """Whether a reader's class computes what our class of that name does."""
    original = scattered(kind(*sizes))
    mine, name = answer(*sizes), f"{kind.__name__}{sizes}"
    if wrong := takes_weights(mine, original, name):
        return wrong
    return same_tensor(mine(*inputs), original(*inputs), f"the output of {name}")

"""Tests whether a model's layers and tensors are registered, and its tied parameters are one."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import shape
from .probe import Probe
from .report import Finding, listed

Path = tuple[str, Any]  # the path to a part, and the part
Hidden = dict[int, Path]  # by the id of each part


def hidden(model: nn.Module) -> Hidden:
    """Returns, by id, the layers and tensors that modules hold but have not registered.

    Layers without tensors, such as activations, do not count, nor do tensors that were computed
    from others, are empty, or are one number, which works on any device.
    """
    known = {id(part) for part in chain(model.modules(), model.parameters(), model.buffers())}
    found: Hidden = {}
    for name, module in model.named_modules():
        for attribute, value in vars(module).items():
            for path, part in inside(value, f"{name}.{attribute}".lstrip(".")):
                layer = isinstance(part, nn.Module) and part.state_dict()
                tensor = isinstance(part, Tensor) and part.is_leaf and part.dim() and part.numel()
                if (layer or tensor) and id(part) not in known:
                    found[id(part)] = path, part
    return found


def inside(value: Any, path: str = "") -> Iterator[Path]:
    """Yields (path, object) for a value and all that its lists, tuples, dicts and sets hold."""
    met: set[int] = set()
    waiting: deque[Path] = deque([(path, value)])
    while waiting:
        path, value = waiting.popleft()
        yield path, value
        if not isinstance(value, dict | list | tuple | set | frozenset) or id(value) in met:
            continue
        met.add(id(value))
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        waiting.extend((f"{path}[{key!r}]", part) for key, part in parts)


def leaves(output: Tensor) -> list[Tensor]:
    """Returns the leaf tensors to which a backward pass from the output would give gradients."""
    found, waiting, met = [], [output.grad_fn], set()
    while waiting:
        node: Any = waiting.pop()
        if node is not None and node not in met:
            met.add(node)
            found += [node.variable] if hasattr(node, "variable") else []
            waiting += [following for following, _ in node.next_functions]
    return found


def registered(probe: Probe) -> Finding:
    """Tests for unregistered layers and tensors, and for trained tensors that are no parameters.

    Only what a module holds before and after a call counts: not the attention maps it leaves.
    """
    before = hidden(probe.model)
    trained = leaves(probe.watched(probe.target))
    after = hidden(probe.model)
    names = {key: path for key, (path, _) in before.items() if key in after}
    known = {id(parameter) for parameter in probe.model.parameters()} | set(names)
    for key in names:
        if isinstance(after[key][1], nn.Module):
            known |= {id(parameter) for parameter in after[key][1].parameters()}
    buffers = {id(buffer): name for name, buffer in probe.model.named_buffers()}
    for leaf in trained:
        if id(leaf) not in known:
            names[id(leaf)] = buffers.get(id(leaf), f"a tensor of shape {shape(leaf)}")
    if names:
        what = f"not registered, or trained and no parameter: {listed(list(names.values()))}"
        fix = (
            "use nn.ModuleList or nn.ModuleDict for layers, nn.Parameter for what is trained, "
            "register_buffer for tables: else optimiser, state_dict and .to(device) pass them by"
        )
        return Finding("registered", "fault", what, fix)
    return Finding("registered", "passed", "what is used or kept is registered")


# --- Sharing ----------------------------------------------------------------------------------


def shared(probe: Probe, model: nn.Module, pairs: Sequence[tuple[str, str]]) -> Finding:
    """Tests whether each named pair of parameters is one tensor, and no other two are copies."""
    named = dict(model.named_parameters(remove_duplicate=False))
    fix = "one parameter for both, b.weight = a.weight, and after it nothing that makes a new one"
    parted = [f"{a} and {b}" for a, b in pairs if not one_memory(named[a], named[b])]
    if parted:
        return Finding("tied", "fault", f"two tensors each: {listed(parted)}", fix)
    words, layers = copies(model, probe.vocabularies)
    if words:
        what = f"equal numbers in two tensors, copied and not tied: {listed(words)}"
        return Finding("tied", "fault", what, f"{fix}; the first update parts copies")
    doubled = [f"{a} and {b}" for a, b in pairs if named[a] is not named[b]]
    if doubled:
        what = f"two parameters in one memory: {listed(doubled)}"
        fix = "it lasts until .to(device) or .double() gives each its own: share the parameter"
        return Finding("tied", "note", what, fix)
    if layers:
        what = f"layers that begin as copies of each other: {listed(layers)}"
        fix = "they learn apart, but from one beginning: draw each layer's weights anew"
        return Finding("tied", "note", what, fix)
    count = f"{len(pairs)} named" if pairs else "none named"
    return Finding("tied", "passed", f"pairs: {count}, and no matrix is a copy of another")


def one_memory(a: Tensor, b: Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()


def copies(model: nn.Module, vocabularies: Sequence[int]) -> tuple[list[str], list[str]]:
    """Returns the names of equal trained matrices: those with a row for each word, and others."""
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    alike: dict[Any, list[tuple[str, Tensor]]] = {}
    for name, matrix in model.named_parameters():
        varied = matrix.is_floating_point() and matrix.dim() > 1 and matrix.min() < matrix.max()
        if varied and matrix.requires_grad:  # ones, zeros and what stays as it is are no copies
            key = matrix.shape, matrix.dtype, matrix.detach().sum().item()
            alike.setdefault(key, []).append((name, matrix))
    words, layers = [], []
    for (a, first), (b, second) in chain(*(combinations(group, 2) for group in alike.values())):
        if not one_memory(first, second) and torch.equal(first, second):
            square = first.shape[0] == first.shape[1] and not {id(first), id(second)} & embeddings
            if first.shape[0] not in vocabularies or square:
                layers.append(f"{a} and {b}")
            else:
                words.append(f"{a} and {b}")
    return words, layers

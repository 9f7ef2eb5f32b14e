"""Chapter 13's exercises."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from unmasked_book.exercises.compare import same_number, same_tensor
from unmasked_book.machines import kept_bytes, rounded


def share(answer: float) -> str | None:
    """Of eight P100: six operations for each of 63 million parameters and 25,000 words."""
    return same_number(answer, 6 * 63e6 * 25_000 / 0.4 / (8 * 9.5e12), 0.03)


def whole_gradient(answer: Callable[[list[Tensor], list[int]], Tensor]) -> str | None:
    """A mean of means, weighted with what each is a mean of."""
    torch.manual_seed(0)
    for counts in ([4, 4], [30, 2], [1, 2, 5]):
        of_words = torch.randn(sum(counts), 3)
        means = [part.mean(0) for part in torch.split(of_words, counts)]
        got = answer(means, counts)
        if wrong := same_tensor(got, of_words.mean(0), f"with {counts}, whole_gradient(...)"):
            return wrong
    return None


def fewer_bits(answer: Callable[[Tensor, int], Tensor]) -> str | None:
    """With 7 bits bfloat16's numbers, with 10 TF32's."""
    torch.manual_seed(0)
    x = torch.cat(
        [torch.randn(20) * 10.0 ** torch.randint(-8, 9, (20,)), torch.tensor([1.0, -3.0])]
    )
    for fraction in (7, 10, 3):
        got = answer(x, fraction)
        expected = rounded(x, fraction)
        if isinstance(got, Tensor) and got.shape == x.shape:
            got, expected = got / x, expected / x  # small numbers count as much as large ones
        if wrong := same_tensor(got, expected, f"shorten(x, {fraction}), divided by x,"):
            return wrong
    return None


Run = Callable[[Tensor], Tensor]


def computed_twice(answer: Callable[[Run, Tensor], Tensor]) -> str | None:
    """Only x is kept, and every gradient is what it is without that, also with dropout."""
    return without_keeping(answer, 0.0) or without_keeping(answer, 0.5)


def without_keeping(answer: Callable[[Run, Tensor], Tensor], dropout: float) -> str | None:
    network = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Dropout(dropout), nn.Linear(24, 6))
    x, case, runs = torch.randn(4, 6), f"with dropout {dropout},", 0

    def run(x: Tensor) -> Tensor:
        nonlocal runs
        runs += 1
        result: Tensor = network(x)
        return result

    expected = gradients(network, x, run)
    runs = 0
    got = gradients(network, x, lambda x: answer(run, x))
    if wrong := different(got, expected, case):
        return wrong
    often, x = runs, x.requires_grad_()
    kept = kept_bytes(lambda: answer(run, x), network.parameters())
    if kept > x.nbytes:
        return f"not yet: {case} {kept} bytes are kept for the backward pass; x has {x.nbytes}."
    if often != 2:
        return f"not yet: {case} run was called {often} times; once in each pass is enough."
    return None


def gradients(network: nn.Module, x: Tensor, forward: Run) -> dict[str, Tensor | None]:
    """The result, all gradients, and the next random number."""
    torch.manual_seed(1)
    network.zero_grad()
    x = x.detach().clone().requires_grad_()
    result = forward(x)
    torch.rand(3)  # somebody else draws in between
    (result**2).sum().backward()
    found = {"the result": result.detach(), "the gradient of x": x.grad}
    found |= {f"the gradient of {name}": p.grad for name, p in network.named_parameters()}
    return {**found, "the next random number": torch.rand(1)}


def different(
    got: dict[str, Tensor | None], expected: dict[str, Tensor | None], case: str
) -> str | None:
    for name, tensor in expected.items():
        assert tensor is not None
        if got[name] is None:
            return f"not yet: {case} {name} is missing."
        if wrong := same_tensor(got[name], tensor, f"{case} {name}"):
            again = " Does the second run draw the same random numbers?"
            return wrong + (again if "0.5" in case else "")
    return None


CHECKS = (share, whole_gradient, fewer_bits)
PLUS = computed_twice

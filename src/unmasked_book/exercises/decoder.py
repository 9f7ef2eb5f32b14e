"""Judges answers to the exercises of chapter 6."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from unmasked import plain
from unmasked.masks import causal_mask
from unmasked_book.exercises.compare import function, number, same_tensor

SOURCE = torch.tensor([[3, 4, 5, 6, 2], [7, 2, 0, 0, 0]])
CASES = ((2, 0.3, 1, 5), (1, 0.7, 63, 8))  # in both <eos> comes early and padding is likely


@torch.no_grad()
def cached(answer: Callable[[plain.Transformer, Tensor, int], Tensor]) -> str | None:
    """Judges greedy search with a cache: right tokens [B, n], and no position computed twice."""
    for layers, std, seed, n in CASES:
        model = talkative(layers, std, seed)
        expected, passed = written(model, n), metered(model)
        got = answer(model, SOURCE, n)
        if wrong := same_tensor(got, expected, f"generate(model, source, {n})"):
            return wrong
        for name, seen in passed.items():
            needed = SOURCE.shape[1] if "encoder" in name or "cross" in name else n
            if seen != needed:
                return f"not yet: right tokens, but {name} saw {seen} positions, not {needed}."
    return None


def talkative(layers: int, std: float, seed: int) -> plain.Transformer:
    """Returns a model with weights so large that attention matters and tokens seldom repeat."""
    torch.manual_seed(seed)
    model = plain.Transformer(9, 9, 16, 2, layers, 32).eval()
    torch.manual_seed(seed)  # the matrices do not depend on what the constructor draws
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=std)
    return model


def written(model: plain.Transformer, n: int) -> Tensor:
    """Returns the tokens [B, n] that greedy search finds for SOURCE, without a cache or padding."""
    target = torch.ones_like(SOURCE[:, :1])
    for _ in range(n):
        best = model(SOURCE, target)[:, -1:, 1:].argmax(-1) + 1
        target = torch.cat([target, best], dim=1)
    return target[:, 1:]


def metered(model: plain.Transformer) -> dict[str, int]:
    """Returns for feed-forward and key layers how many positions pass through, counted by hooks."""
    passed = {}
    for name, module in model.named_modules():
        if name.endswith("feed_forward") or (name.endswith("key") and "decoder" in name):
            passed[name] = 0

            def count(_: nn.Module, __: object, output: Tensor, name: str = name) -> None:
                passed[name] += output.shape[:-1].numel() // len(SOURCE)

            module.register_forward_hook(count)
    return passed


CHECKS = {
    "1": number(6_144_000),  # keys and values: 6 layers, 8 heads of width 64, 1,000 words
    "2": function("step_mask", lambda past, n: causal_mask(n, past=past), (0, 3), (4, 1), (2, 3)),
    "+": cached,
}

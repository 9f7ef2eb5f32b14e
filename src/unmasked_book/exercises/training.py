"""Judges answers to the exercises of chapter 8."""

from typing import Any

import torch
from torch import Tensor, nn

from unmasked import plain
from unmasked_book.exercises.compare import NoAnswerError, function, number, same_tensor


def adam(answer: Any) -> str | None:
    """Judges a reader's Adam: it must train a small network, one layer unused, like PyTorch's."""
    for betas, eps in (((0.9, 0.98), 1e-9), ((0.8, 0.9), 0.1)):
        mine, theirs = network(), network()
        optimizer = answer(mine.parameters(), 0.01, betas, eps)
        reference = torch.optim.Adam(theirs.parameters(), lr=0.01, betas=betas, eps=eps)
        before = [p.detach().clone() for p in mine.parameters()]
        for step in range(1, 6):
            for model, chosen in ((mine, optimizer), (theirs, reference)):
                model.zero_grad(set_to_none=True)
                x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
                (model[2](model[0](x).relu()) ** 2 + 3).log().sum().backward()
                chosen.step()
            case = f"with betas={betas}, eps={eps}, after step {step}, a parameter"
            for start, p, q in zip(before, mine.parameters(), theirs.parameters(), strict=True):
                if wrong := same_tensor(p.detach(), q.detach(), case):
                    if all(map(torch.equal, before, mine.parameters())):
                        raise NoAnswerError
                    return f"{wrong} {advice(start, p, q) if step == 1 else ''}".strip()
    return None


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3))


def advice(before: Tensor, mine: Tensor, theirs: Tensor) -> str:
    """Says what is wrong with the direction or the length of Adam's first step, or ""."""
    got, wanted = (x.detach() - before for x in (mine, theirs))
    if float((got * wanted).sum()) < 0:
        return "It steps along the gradient instead of against it."
    ratio = float(got.abs().sum() / wanted.abs().sum())
    if 0.95 < ratio < 1.05:
        return ""
    return f"The first step is {ratio:.2g} times as long: is the correction by 1 - β**s there?"


def model(_source: Tensor, target: Tensor) -> Tensor:
    """Returns logits [B, T, 10] that depend on the token read only."""
    return torch.arange(100.0).view(10, 10).sin()[target]


SOURCE, TARGET = torch.tensor([[4, 5, 2], [6, 2, 0]]), torch.tensor([[1, 7, 8, 2], [1, 9, 2, 0]])
CASES = [(model, SOURCE[:n], TARGET[:n]) for n in (1, 2)]
CHECKS = {
    "1": number(512**-0.5 * 4000**-0.5, 0.02),
    "2": function("loss", plain.loss, *CASES, tolerance=1e-5, dots=True),
    "+": adam,
}

"""Quick dropout drops as often as asked, and independently."""

import pytest
import torch
from torch.nn import functional as F

from unmasked.kernels import Dropout, dropout, keep_mask


@pytest.mark.parametrize(("p", "dtype"), [(0.1, torch.float32), (0.3, torch.float64),
                                          (0.5, torch.bfloat16), (0.9, torch.float16)])  # fmt: skip
def test_as_many_are_dropped_as_asked_and_the_mean_stays(p, dtype):
    mask = keep_mask(torch.empty(1000, 1000, dtype=dtype), p)
    assert mask.dtype == dtype
    assert (mask == 0).double().mean() == pytest.approx(p, abs=0.002)
    assert mask.double().mean() == pytest.approx(1, abs=0.02 if p == 0.9 else 0.006)
    assert len(mask.unique()) == 2


@pytest.mark.parametrize("shape", [(1,), (3,), (7, 1, 9)])
def test_every_element_is_kept_at_times_and_dropped_at_times_and_so_is_its_gradient(shape):
    x = torch.ones(shape).transpose(0, -1).requires_grad_()
    many = torch.stack([dropout(x, 0.5) for _ in range(200)])
    assert (many == 2).any(0).all()
    assert (many == 0).any(0).all()
    assert torch.equal(torch.autograd.grad(many.sum(), x)[0], many.sum(0))


def test_neighbours_are_independent():
    dropped = (keep_mask(torch.empty(1_000_000), 0.5) == 0).double()
    for distance in (1, 2, 4):
        assert (dropped[distance:] * dropped[:-distance]).mean() == pytest.approx(0.25, abs=0.003)


def test_off_in_evaluation_and_at_zero_and_elsewhere_pytorchs_own(monkeypatch):
    x = torch.randn(10)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
    assert not torch.equal(Dropout(0.5).train()(x), x)
    monkeypatch.setattr(F, "dropout", lambda _, p: ("torch", p))
    assert dropout(torch.empty(3, device="meta"), 0.25) == ("torch", 0.25)

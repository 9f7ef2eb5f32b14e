"""A run's calls, in order; what pictures say of them is compared when the notebooks run."""

from itertools import pairwise

import torch

from unmasked_book.timing import trace


def test_calls_come_in_order_and_know_what_they_called():
    def work():
        x = torch.ones(8, 8)
        return torch.nn.functional.layer_norm((x @ x).relu(), (8,))

    calls = trace(work)
    wanted = {"ones"}, {"matmul", "mm"}, {"relu"}, {"layer_norm", "native_layer_norm"}
    assert len(calls) == len(wanted)
    assert all(names <= call.names for names, call in zip(wanted, calls, strict=True))
    for one, after in pairwise(calls):
        assert 0 <= one.begin < one.begin + one.took <= after.begin

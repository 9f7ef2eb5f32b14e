"""A run's calls, in order, and a picture that says what it shows."""

from itertools import pairwise

import torch

from unmasked_book.timeline import Call, timeline, trace


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


def test_the_picture_says_the_shares_of_each_kind():
    """A call counts once, for the first kind that it holds; the rest is between the calls."""
    calls = [
        Call(0.0, 2.0, frozenset({"addmm", "add"})),
        Call(4.0, 1.0, frozenset({"view"})),
        Call(6.0, 4.0, frozenset({"add"})),
    ]
    picture = timeline({"small": calls}, {"products": ["addmm"], "sums": ["add"]}, "nothing")
    assert "small: 3 calls in 10 µs, products 20%, sums 40%, nothing 10%" in picture.words

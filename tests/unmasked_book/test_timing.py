"""A run's calls, in order, and a picture that says what it shows."""

from itertools import pairwise

import torch

from unmasked_book.timing import Call, measured, roofline, timeline, trace


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
    picture = timeline({"small": calls})
    assert "small: 3 calls in 10 µs, matrix products 20%, attention 0%" in picture.words
    assert "additions, ReLU 40%, calls that compute nothing 10%" in picture.words


def test_a_figure_of_what_was_measured_says_it_and_where():
    machine = {"processor": "a core", "threads": 1, "torch": "2.8", "date": "2026-01-01"}
    drawn = measured({"time": [1.0, 4.0]}, [1, 2], machine, xlabel="n", ylabel="s", fitted=2)
    assert "time: grows like n^2.0, from 1 at 1 to 4 at 2" in drawn.words
    times = {"product 16": [2e-6, 1e-6], "read 4 MiB, sum": [1e-4], "read 64 MiB, sum": [5e-3],
             "read 64 MiB, times a vector": [6e-3]}  # fmt: skip
    roof = roofline({"machine": machine, "seconds": times})
    assert "at most 8.2, over operations for each byte. cache: 42 GB a second" in roof.words
    assert "16 at 2.7 and 8.2; matrix times vector at 0.5 and 5.6" in roof.words
    assert roof.words.endswith("Measured on a core, 1 thread, torch 2.8, 2026-01-01.")

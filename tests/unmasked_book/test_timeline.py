"""A run's calls, in order, and a picture that says what it shows."""

from itertools import pairwise

import torch

from unmasked_book.timeline import Call, shares, timeline, trace


def work() -> torch.Tensor:
    x = torch.ones(8, 8)
    return torch.nn.functional.layer_norm((x @ x).relu(), (8,))


def test_calls_come_in_order_and_know_what_they_called():
    calls = trace(work)
    tops = [
        next(name for name in ("ones", "matmul", "relu", "layer_norm") if name in called)
        for *_, called in calls
    ]
    assert tops == ["ones", "matmul", "relu", "layer_norm"]
    assert {"layer_norm", "native_layer_norm"} <= calls[-1].names
    assert "mm" in calls[1].names
    for one, after in pairwise(calls):
        assert 0 <= one.begin < one.begin + one.took <= after.begin


def test_the_picture_sorts_calls_by_kind_and_says_their_shares():
    calls = [
        Call(0.0, 2.0, frozenset({"linear", "addmm"})),
        Call(4.0, 1.0, frozenset({"view"})),
        Call(6.0, 4.0, frozenset({"add"})),
    ]
    picture = timeline({"small": calls}, {"products": ["addmm"], "sums": ["add"]}, "nothing")
    assert "small: 3 calls in 10 µs, products 20%, sums 40%, nothing 10%" in picture.words
    [axis] = picture.figure.axes
    assert axis.get_title() == "small"
    assert axis.get_xlim() == (0, 10)
    texts = [text.get_text() for text in picture.figure.legends[0].get_texts()]
    assert texts == ["products", "sums", "nothing"]


def test_every_run_has_a_row_of_its_own():
    calls = trace(work)
    picture = timeline({"one": calls, "other": calls}, {"products": ["mm"]}, "others")
    assert [axis.get_title() for axis in picture.figure.axes] == ["one", "other"]


def test_a_call_counts_once_and_what_is_missing_is_between_the_calls():
    calls = [Call(1.0, 3.0, frozenset({"addmm", "add"})), Call(8.0, 2.0, frozenset({"view"}))]
    found = shares(calls, {"products": ["addmm"], "sums": ["add"]}, "nothing")
    assert found == {"products": 0.3, "sums": 0.0, "nothing": 0.2}


def test_the_fastest_of_several_runs_is_kept():
    numbers = iter(range(9))

    def run() -> None:
        for _ in range(200 if next(numbers) != 2 else 1):  # the first run is not recorded
            torch.ones(2)

    assert len(trace(run, 3)) == 1

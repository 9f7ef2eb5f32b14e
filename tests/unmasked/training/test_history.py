"""Tests that a history gives columns, text and a file, and refuses unknown names."""

import csv
import math

from helpers.refusals import refusals
from unmasked.training.history import History


def example():
    first = {"step": 0, "exact": 0.25}
    history = History([first, {"step": 5, "loss": 3.14159, "seconds": 0.5}])
    history.add(10, {"loss": 2.0, "seconds": 12345.678})
    history.add(10, {"exact": 0.75})
    return history


def test_columns_the_table_and_the_file(tmp_path):
    history = example()
    assert (history["step"], history["loss"]) == ([0, 5, 10], [3.14159, 2.0])
    lines = repr(history).split("\n")
    assert lines[0].split() == history.names() == ["step", "exact", "loss", "seconds"]
    assert lines[2:] == ["   5         3.142      0.5", "  10   0.75      2    12346"]
    assert history.table("loss", "step", last=2) == " loss  step\n3.142     5\n    2    10"
    history.write(str(tmp_path / "history.csv"))
    with (tmp_path / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0] == {"step": "0", "exact": "0.25", "loss": "", "seconds": ""}
    assert float(rows[1]["loss"]) == 3.14159
    odd = History([{"step": 1000, "loss": math.nan, "norm": math.inf}])
    assert odd.table().split("\n")[1].split() == ["1000", "nan", "inf"]


test_what_was_not_measured_is_refused = refusals(
    (lambda: example()["bleu"], "names: .* measured, got bleu; there are step, exact, loss, s"),
    (lambda: History()["loss"], "names: .* measured, got loss; train first"),
    (lambda: History([{"a": 1.0}, {"b": 2.0}]).plot("a", "b"), r"names: .* got \['a', 'b'\]"),
)

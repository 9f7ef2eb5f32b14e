"""What a training measured: as text, plot, file, and for TensorBoard."""

import csv
import math
import re
import sys
import warnings
from functools import partial

import pytest
import torch
from tqdm import tqdm

from helpers.small_training import RECIPE, quiet, small
from unmasked.plots.picture import Picture
from unmasked.training import trainer
from unmasked.training.history import History, tensorboard


def example():
    history = History()
    history.add(0, {"exact": 0.25})
    history.add(5, {"loss": 3.14159, "seconds": 0.5})
    history.add(10, {"loss": 2.0, "seconds": 12345.678})
    history.add(10, {"exact": 0.75})
    return history


def test_a_column_holds_what_was_measured():
    history = example()
    assert history["step"] == [0, 5, 10]
    assert history["loss"] == [3.14159, 2.0]
    assert history["exact"] == [0.25, 0.75]
    assert history.names() == ["step", "exact", "loss", "seconds"]


def test_the_table():
    text = [
        "step  exact   loss  seconds",
        "   0   0.25",
        "   5         3.142      0.5",
        "  10   0.75      2    12346",
    ]
    assert example().table().split("\n") == text
    assert repr(example()).split("\n") == text
    assert example().table("loss", "step", last=2) == " loss  step\n3.142     5\n    2    10"
    assert History().table() == ""
    large = History([{"step": 123456, "loss": math.nan, "norm": math.inf, "rate": 1.25e-7}])
    assert large.table().split("\n")[1].split() == ["123456", "nan", "inf", "1.25e-07"]


def test_the_plot_is_a_picture_with_words():
    picture = example().plot()
    assert isinstance(picture, Picture)
    assert picture.words == (
        "loss over step. loss goes from 3.1 at 5 to 2 at 10, lowest 2, highest 3.1."
    )
    two = example().plot("loss", "exact", title="Learning", log_y=True)
    assert two.words.startswith("Learning. loss and exact over step. loss goes from 2 at 10 to 2")
    assert two.figure.axes[0].get_yscale() == "log"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: example()["bleu"],
            "names: expected columns that were measured, got bleu; "
            "there are step, exact, loss, seconds",
        ),
        (lambda: example().table("loss", "bleu"), "columns that were measured, got bleu; there"),
        (lambda: example().table(last=0), "last: expected a whole number of at least 1, got 0"),
        (lambda: example().plot("bleu"), "columns that were measured, got bleu; there are step"),
        (lambda: History().plot(), "columns that were measured, got loss; train first"),
        (lambda: History()["loss"], "columns that were measured, got loss; train first"),
        (
            lambda: History([{"a": 1.0}, {"b": 2.0}]).plot("a", "b"),
            r"measured together, got \['a', 'b'\]; draw them one by one",
        ),
    ],
)
def test_what_was_not_measured_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_file(tmp_path):
    example().write(tmp_path / "history.csv")
    example().write(str(tmp_path / "again.csv"))
    with (tmp_path / "again.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0] == {"step": "0", "exact": "0.25", "loss": "", "seconds": ""}
    assert float(rows[1]["loss"]) == 3.14159
    assert (tmp_path / "history.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()


# --- TensorBoard ----------------------------------------------------------------------------------


def events(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    found = EventAccumulator(str(folder)).Reload()
    return {tag: {e.step: e.value for e in found.Scalars(tag)} for tag in found.Tags()["scalars"]}


def test_tensorboard_gets_every_row(tmp_path):
    def watch(step, _):
        return {"twice": torch.tensor(2 * step)}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        history = quiet(small(), watch=watch, tensorboard_folder=tmp_path, every=4)
    seen = events(tmp_path)
    assert set(seen) == {"loss", "norm", "rate", "seconds", "twice"}
    assert seen["twice"] == {0: 0, 4: 8, 8: 16, 12: 24}
    expected = dict(zip([4, 8, 12], history["loss"], strict=True))
    assert seen["loss"] == pytest.approx(expected, rel=1e-6)


def test_a_resumed_training_hides_what_it_does_again(tmp_path):
    wrong = tensorboard(tmp_path)
    for step in range(1, 9):
        wrong.add_scalar("loss", 99.0, step)
    wrong.close()
    right = tensorboard(tmp_path, 5)
    for step in range(6, 9):
        right.add_scalar("loss", 1.0, step)
    right.close()
    assert events(tmp_path)["loss"] == {**dict.fromkeys(range(1, 6), 99.0), 6: 1, 7: 1, 8: 1}


def test_without_tensorboard_it_says_what_to_install(tmp_path, monkeypatch):
    assert tensorboard(None) is None
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    model = small()
    with pytest.raises(ValueError, match=r"^tensorboard: expected the package tensorboard, got no"):
        quiet(model, tensorboard_folder=tmp_path / "none")
    assert not (tmp_path / "none").exists()


# --- Progress -------------------------------------------------------------------------------------


def test_the_bar_shows_loss_rate_and_time_left(capsys, monkeypatch):
    monkeypatch.setattr(trainer, "tqdm", partial(tqdm, disable=False, mininterval=0.0))
    quiet(small(), progress=True, every=3)
    printed = capsys.readouterr()
    assert printed.out == ""
    shown = printed.err.split("\r")
    line = (
        r"training:  \d+%\|.*\| 6/12 \[00:0\d<00:0\d, .*(step/s|s/step), loss=3.\d+, rate=5.0e-03"
    )
    assert any(re.match(line, text) for text in shown), shown[-3:]
    assert re.match(r"training: 100%.* 12/12 .*loss=3.\d+, rate=1.0e-03\]", shown[-1])


def test_a_resumed_bar_begins_where_it_was(tmp_path, capsys, monkeypatch):
    quiet(small(), folder=tmp_path)
    monkeypatch.setattr(trainer, "tqdm", partial(tqdm, disable=False))
    quiet(small(), folder=tmp_path, resume=True, progress=True)
    assert "12/12" in capsys.readouterr().err


def test_no_bar_where_none_is_wanted(capsys, monkeypatch):
    quiet(small())
    assert capsys.readouterr() == ("", "")
    asked = []

    def bar(**options):
        asked.append(options)
        return tqdm(**{**options, "disable": True})

    monkeypatch.setattr(trainer, "tqdm", bar)
    quiet(small(), progress=True)
    assert "disable" not in asked[0]  # TQDM_DISABLE decides
    assert asked[0]["total"] == RECIPE.steps

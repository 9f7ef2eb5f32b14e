"""What benchmarks/prophetnet.py asks of a model, and that its record has both sides of the bug."""

import sys
from types import SimpleNamespace

import pytest
import torch

import prophetnet
from unmasked_book.records import recorded


class Model:
    """Logits that count the target's tokens so far, or all of them."""

    def __init__(self, leaks):
        self.leaks = leaks

    def __call__(self, *, input_ids, decoder_input_ids, use_cache):
        assert not use_cache
        assert input_ids.tolist() == [[5]]
        tokens = decoder_input_ids.float()
        seen = tokens.sum(1, keepdim=True).expand_as(tokens) if self.leaks else tokens.cumsum(1)
        return SimpleNamespace(logits=torch.stack([seen, -seen], dim=-1))


@pytest.mark.parametrize(
    ("leaks", "moved"), [(False, [0, 0, 0]), (True, [7, 0, 1])]
)  # a sum does not see token 0, which is padding
def test_the_first_output_is_compared(leaks, moved):
    assert list(prophetnet.moves(Model(leaks)).values()) == moved


def test_a_row_for_each_version_is_kept_in_order(monkeypatch, tmp_path):
    def run(version):
        monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(__version__=version))
        prophetnet.main()

    kept = {}
    monkeypatch.setattr("sys.argv", ["prophetnet.py"])
    monkeypatch.setattr(prophetnet, "small_model", lambda: Model(True))
    monkeypatch.setattr(prophetnet, "repair_prophet", lambda model: Model(False))
    monkeypatch.setattr(prophetnet, "away", lambda model, repaired: [model.leaks, repaired.leaks])
    monkeypatch.setattr(prophetnet, "recorded_names", lambda: [*kept])
    monkeypatch.setattr(prophetnet, "recorded", kept.get)
    monkeypatch.setattr(
        prophetnet, "record", lambda name, run: [kept.update({name: run}), tmp_path][1]
    )
    for version in ("4.27.0", "4.9.1", "4.27.0"):
        run(version)
    rows = kept["prophetnet"]["rows"]
    assert [row["transformers"] for row in rows] == ["4.9.1", "4.27.0"]
    assert all(row["away from the repaired model"] == [True, False] for row in rows)


def test_the_record_has_the_last_version_that_was_right_and_the_first_that_is_not():
    rows = {row["transformers"]: row["moves"] for row in recorded("prophetnet")["rows"]}
    assert max(rows["4.26.1"].values()) < 1e-6
    assert min(*rows["4.27.0"].values(), *rows["5.23.0"].values()) > 1e-3

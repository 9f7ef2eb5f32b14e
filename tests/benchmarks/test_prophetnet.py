"""What benchmarks/prophetnet.py asks of a model, and that its record has both sides of the bug."""

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


def test_the_record_has_the_last_version_that_was_right_and_the_first_that_is_not():
    rows = {row["transformers"]: row["moves"] for row in recorded("prophetnet")["rows"]}
    assert max(rows["4.26.1"].values()) < 1e-6
    assert min(*rows["4.27.0"].values(), *rows["5.23.0"].values()) > 1e-3

"""What the PyTorch walkthrough tests of its own functions, asked of ours.

Its masks say True for "hidden" and come as [batch, queries, keys]; ours say True for "may attend"
and broadcast. Its sequences run first, ours in second place.
"""

import torch

from unmasked.fast.dropout import Dropout
from unmasked.masks import causal_mask, padding_mask, to_blocked
from unmasked.positions import SinusoidalPositions


def test_padding_mask_hides_the_padded_keys_from_every_query():
    keys = torch.tensor([[1, 2, 3, 4, 0], [1, 2, 0, 0, 0]])
    hidden = to_blocked(padding_mask(keys)).expand(2, 1, 5, 5)[:, 0]
    assert hidden.shape == (2, 5, 5)
    for query in range(5):
        assert hidden[0, query].tolist() == [False, False, False, False, True]
        assert hidden[1, query].tolist() == [False, False, True, True, True]


def test_causal_mask_hides_what_comes_later():
    hidden = to_blocked(causal_mask(5)).expand(2, 5, 5)
    rows = [[0, 1, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 1, 1], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]
    assert hidden.int().tolist() == [rows, rows]


def test_positional_encoding_has_a_row_for_each_position():
    assert SinusoidalPositions(512, max_len=1024).table.shape == (1024, 512)


def test_positional_encoding_holds_sines_and_cosines_in_turn():
    position = torch.arange(10).float()[:, None]
    rate = torch.exp(torch.arange(0, 6, 2).float() * (-torch.log(torch.tensor(10000.0)) / 6))
    table = SinusoidalPositions(6, max_len=10).table
    torch.testing.assert_close(table[:, 0::2], torch.sin(position * rate), atol=1e-6, rtol=0)
    torch.testing.assert_close(table[:, 1::2], torch.cos(position * rate), atol=1e-6, rtol=0)


def test_positional_encoding_is_added():
    positions, x = SinusoidalPositions(512, max_len=1024), torch.randn(2, 20, 512)
    torch.testing.assert_close(positions(x), x + positions.table[:20], atol=1e-6, rtol=0)


def test_dropout_changes_what_goes_through_while_training_only():
    positions, dropout = SinusoidalPositions(512), Dropout(0.5)
    x = positions(torch.zeros(2, 20, 512))
    without, with_dropout = dropout.eval()(x), dropout.train()(x)
    assert torch.equal(without, x)
    assert not torch.equal(with_dropout, x)

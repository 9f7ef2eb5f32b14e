import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmasked.positions import LearnedPositions, SinusoidalPositions, shift_matrix, sinusoids


@given(d_model=st.integers(1, 17), position=st.integers(0, 10_000))
def test_each_number_is_the_papers_formula(d_model, position):
    row = sinusoids(position, 1, d_model)[0]
    for column in range(d_model):
        angle = position / 10_000 ** (2 * (column // 2) / d_model)
        expected = math.cos(angle) if column % 2 else math.sin(angle)
        assert row[column] == pytest.approx(expected, abs=1e-9)  # float32 is 5e-4 away


@given(half=st.integers(1, 16), start=st.integers(0, 5000), shift=st.integers(-5000, 5000))
def test_the_shift_matrix_moves_every_position_and_keeps_lengths(half, start, shift):
    here, there = (sinusoids(p, 5, 2 * half) for p in (start, start + shift))
    matrix = shift_matrix(2 * half, shift)
    torch.testing.assert_close(here @ matrix.T, there, atol=1e-8, rtol=0)
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(2 * half, dtype=torch.float64))
    assert shift_matrix(2 * half, shift, torch.float32).dtype == torch.float32


def test_any_length_beyond_max_len_and_a_start_is_a_slice_of_the_whole():
    x, whole = torch.zeros(2, 100, 7), sinusoids(0, 100, 7).float()
    for max_len in (4, 100):
        positions = SinusoidalPositions(7, max_len=max_len)
        for start, length in ((0, 100), (1, 3), (2, 3), (90, 3)):
            expected = whole[start : start + length].expand(2, -1, -1)
            assert torch.equal(positions(x[:, :length], start=start), expected)


def test_the_table_is_made_anew_for_another_precision_or_device_and_not_saved():
    exact = sinusoids(0, 100, 6)
    positions = SinusoidalPositions(6, max_len=100)
    assert positions.state_dict() == {}
    assert torch.equal(positions.bfloat16().double().table, exact)
    for emptied in (positions.float(), SinusoidalPositions(6, max_len=100).to("meta")):
        assert torch.equal(emptied.to_empty(device="cpu").table, exact.float())
    assert positions(torch.zeros(1, 3, 6).bfloat16()).dtype == torch.bfloat16  # it stays half


def test_learned_positions_are_added_and_trained():
    positions = LearnedPositions(4, max_len=5)
    x = torch.randn(2, 3, 4)
    assert torch.equal(positions(x, start=2), x + positions.table[2:5])
    positions(x).sum().backward()
    assert positions.table.grad[:3].eq(2).all()
    assert positions.table.grad[3:].eq(0).all()

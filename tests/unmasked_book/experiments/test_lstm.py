"""The recurrent model: what it computes, what it sees, and how large it is."""

import pytest
import torch

from helpers import difference
from unmasked import Transformer, TransformerConfig
from unmasked.masks import padding_mask
from unmasked.positions import sinusoids
from unmasked_book.experiments.lstm import (
    Recurrent,
    count_parameters,
    open_forget_gates,
    recurrent_of_size,
)

VOCABULARY = 20


def small(**changes):
    torch.manual_seed(0)
    return Recurrent(VOCABULARY, VOCABULARY, 8, **changes).double().eval()


def tokens(*shape):
    return torch.randint(3, VOCABULARY, shape)


@pytest.mark.parametrize(("attends", "n_layers"), [(True, 2), (False, 1)])
def test_padding_changes_nothing(attends, n_layers):
    model = small(attends=attends, n_layers=n_layers)
    source, target = tokens(1, 5), tokens(1, 4)
    batch = torch.cat([source, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    beside = torch.cat([batch, tokens(1, 8)])
    alone = model(source, target)
    assert difference(model(batch, target), alone) < 1e-12
    assert difference(model(beside, target.expand(2, -1))[:1], alone) < 1e-12


def test_the_future_is_not_seen_and_the_past_is():
    model = small()
    source, target = tokens(2, 5), tokens(2, 6)
    changed = target.clone()
    changed[:, 3] = 3 + (changed[:, 3] - 2) % (VOCABULARY - 3)
    before, after = model(source, target), model(source, changed)
    assert difference(before[:, :3], after[:, :3]) == 0
    assert all(difference(before[:, t], after[:, t]) > 1e-6 for t in range(3, 6))


@pytest.mark.parametrize("attends", [True, False])
def test_without_attention_the_words_come_through_the_last_state_alone(attends):
    model, source, target = small(attends=attends), tokens(2, 5), tokens(2, 4)
    memory, mask = model.encode(source), padding_mask(source)
    blank = memory._replace(states=torch.zeros_like(memory.states))
    hidden, other = (model.decode(target, each, source_mask=mask) for each in (memory, blank))
    assert (difference(hidden, other) > 1e-3) == attends


def test_open_forget_gates_keep_the_memory():
    """With no other weights than the biases, a memory of one shrinks by the gate at each word."""
    model = small(n_layers=2, feeds=True)
    for parameter in (*model.encoder.parameters(), *model.decoder.parameters()):
        torch.nn.init.zeros_(parameter)
    for lstm in (model.encoder, model.decoder):
        torch.nn.init.ones_(lstm.bias_hh_l1[lstm.hidden_size : 2 * lstm.hidden_size])
    open_forget_gates(model, 3.0)
    for lstm in (model.encoder, model.decoder):
        layers, words = 2 * (1 + lstm.bidirectional), 5
        start = torch.zeros(layers, 1, lstm.hidden_size).double()
        _, (_, kept) = lstm(torch.zeros(1, words, lstm.input_size).double(), (start, start + 1))
        expected = torch.full_like(kept, torch.tensor(3.0).sigmoid().item() ** words)
        assert difference(kept, expected) < 1e-6


def test_places_are_the_sinusoids_of_the_transformer():
    plain, placed = (small(places=places) for places in (False, True))
    words = torch.zeros(2, 5, 8).double()
    assert difference(placed.placed(words), sinusoids(0, 5, 8).expand(2, -1, -1)) < 1e-12
    assert torch.equal(plain.placed(words), words)


@pytest.mark.parametrize("attends", [True, False])
def test_a_width_is_found_at_which_the_sizes_agree(attends):
    sizes = {"source_vocab": 30, "target_vocab": 25}
    config = TransformerConfig(**sizes, d_model=32, n_heads=4, n_layers=2, d_ff=64)
    wanted = count_parameters(Transformer(config))

    def off(width):
        return abs(count_parameters(Recurrent(**sizes, d_model=width, attends=attends)) - wanted)

    width = recurrent_of_size(wanted, **sizes, attends=attends)
    assert width % 2 == 0
    assert off(width) <= min(off(width - 2), off(width + 2), 0.04 * wanted)


@pytest.mark.parametrize(
    ("changes", "name"), [({"d_model": 7}, "d_model"), ({"n_layers": 0}, "n_layers")]
)
def test_wrong_sizes_are_refused(changes, name):
    with pytest.raises(ValueError, match=f"{name}: "):
        Recurrent(**{"source_vocab": 5, "target_vocab": 5, "d_model": 8, **changes})

"""The five documents' models; and what the PyTorch walkthrough tests of its own functions.

Its masks say True for "hidden" and come as [batch, queries, keys]; ours say True for "may attend"
and broadcast. Its sequences run first, ours in second place.
"""

import pytest
import torch

from helpers import SMALL, VOCABULARY, difference, ragged, small_model
from unmasked import Transformer
from unmasked.interop import to_torch, torch_masks
from unmasked.kernels import Dropout
from unmasked.masks import causal_mask, from_blocked, padding_mask
from unmasked.positions import SinusoidalPositions
from unmasked_book.documents import DOCUMENTS, document

# --- Models -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_documents_model_runs(name):
    """With the document's options; changes come last."""
    config = document(name, source_vocab=VOCABULARY, target_vocab=19, **SMALL)
    options = {option: getattr(config, option) for option in DOCUMENTS[name]}
    assert options == DOCUMENTS[name] | {o: SMALL[o] for o in DOCUMENTS[name].keys() & SMALL}
    logits = Transformer(config).eval()(ragged([7, 4, 1]), ragged([6, 2, 5], 19))
    assert logits.shape == (3, 6, 19)
    assert logits.isfinite().all()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_it_equals_pytorchs_with_the_same_weights(name):
    model = small_model(name, dropout=0.0, n_decoder_layers=3)
    theirs, source, target = to_torch(model), ragged([7, 4, 1]), ragged([6, 2, 5])
    real, tables = target != 0, (model.source_embedding, model.target_embedding)
    our = model.decode(target, model.encode(source), source_mask=padding_mask(source))[real]
    x, y = (table(tokens) for table, tokens in zip(tables, (source, target), strict=True))
    their = theirs(x, y, **torch_masks(source, target))[real]
    assert difference(our, their) < 1e-10
    weights, tokens = torch.randn_like(our), [table.tokens.weight for table in tables]
    ours, others = (torch.autograd.grad((out * weights).sum(), tokens) for out in (our, their))
    for a, b in zip(ours, others, strict=True):
        assert a.abs().max() > 1e-3
        assert difference(a, b) < 1e-9


def test_no_two_documents_have_the_same_model_and_an_unknown_one_is_refused():
    vocabularies = {"source_vocab": 5, "target_vocab": 5}
    assert len({document(name, **vocabularies) for name in DOCUMENTS}) == len(DOCUMENTS) == 5
    with pytest.raises(ValueError, match=r"^name: expected 'pytorch_walkthrough' or .*, got"):
        document("base", **vocabularies)


# --- The walkthrough's own tests --------------------------------------------------------------


def test_padding_mask_hides_the_padded_keys_from_every_query():
    keys = torch.tensor([[1, 2, 3, 4, 0], [1, 2, 0, 0, 0]])
    hidden = from_blocked(padding_mask(keys)).expand(2, 1, 5, 5)[:, 0]
    assert hidden.shape == (2, 5, 5)
    for query in range(5):
        assert hidden[0, query].tolist() == [False, False, False, False, True]
        assert hidden[1, query].tolist() == [False, False, True, True, True]


def test_causal_mask_hides_what_comes_later():
    hidden = from_blocked(causal_mask(5)).expand(2, 5, 5)
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

"""The plain Transformer computes what the package computes."""

import pytest
import torch

import unmasked
from unmasked import Transformer, TransformerConfig, plain
from unmasked.search import greedy
from unmasked_book.captions import CAPTIONS


@pytest.fixture(scope="module", params=["de-en", "en-de"])
def both(request):
    translator = unmasked.load(request.param)
    side = "german" if request.param == "de-en" else "english"
    return translator, plain.Transformer.from_pretrained(request.param), side


def test_the_shipped_weights_give_the_same_logits(both):
    translator, model, _ = both
    pairs = [(c.german, c.english) for c in CAPTIONS[:16]]
    pairs = pairs if both[2] == "german" else [pair[::-1] for pair in pairs]
    source, target = translator.corpus(pairs).batch(range(len(pairs)))
    with torch.no_grad():
        gap = (model(source, target[:, :-1]) - translator.model(source, target[:, :-1])).abs()
    assert gap[target[:, 1:] != 0].max() < 1e-4


def test_it_translates_as_greedy_search_does(both):
    translator, model, side = both
    source = translator.tokens([getattr(caption, side) for caption in CAPTIONS[:12]])
    assert torch.equal(model.generate(source, 60), greedy(translator.model, source, 60))


def test_it_stops_where_it_is_told_to(both):
    translator, model, side = both
    source = translator.tokens([getattr(CAPTIONS[0], side)])
    assert model.generate(source, 3).shape == (1, 3)


def test_it_passes_every_question():
    torch.manual_seed(0)
    model = plain.Transformer(12, 14, 32, 4, 2, 64)
    report = unmasked.check(model, source_vocab=12, target_vocab=14, quiet=True)
    assert report.ok


def test_gradients_equal_those_of_the_package():
    torch.manual_seed(0)
    options = {"d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 32, "dropout": 0.0}
    package = Transformer(
        TransformerConfig(source_vocab=9, target_vocab=9, norm="pre", **options)
    ).double()
    model = plain.Transformer(9, 9, **options).double()
    state = package.state_dict()
    model.load_state_dict({plain.renamed(key): value for key, value in state.items()})
    source, target = (
        torch.tensor([[3, 4, 5, 2], [6, 2, 0, 0]]),
        torch.tensor([[1, 3, 4], [1, 7, 5]]),
    )
    for each in (model, package):
        (each(source, target) ** 3).sum().backward()
    gap = model.source_embedding.weight.grad - package.source_embedding.tokens.weight.grad
    assert gap.abs().max() < 1e-9

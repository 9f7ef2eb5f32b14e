"""The plain Transformer computes what the package computes."""

import pytest
import torch

import unmasked
from helpers import difference
from unmasked import Transformer, TransformerConfig, plain
from unmasked.loss import translation_loss
from unmasked.search import greedy
from unmasked_book.captions import CAPTIONS


@pytest.mark.parametrize("name", ["de-en", "en-de"])
def test_the_shipped_weights_give_the_same_logits_and_translations(name):
    translator, model = unmasked.load(name), plain.Transformer.from_pretrained(name)
    pairs = [(c.german, c.english)[:: 1 if name == "de-en" else -1] for c in CAPTIONS[:12]]
    source, target = translator.corpus(pairs).batch()
    with torch.no_grad():
        gap = (model(source, target[:, :-1]) - translator.model(source, target[:, :-1])).abs()
    assert gap[target[:, 1:] != 0].max() < 1e-4
    assert torch.equal(plain.generate(model, source, 60), greedy(translator.model, source, 60))
    assert plain.generate(model, source, 3).shape == (12, 3)


def test_loss_and_gradients_equal_those_of_the_package():
    options = {"d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 32, "dropout": 0.0}
    config = TransformerConfig(source_vocab=9, target_vocab=9, norm="pre", **options)
    package, model = Transformer(config).double(), plain.Transformer(9, 9, **options).double()
    state = package.state_dict()
    model.load_state_dict({plain.renamed(key): value for key, value in state.items()})
    source = torch.tensor([[3, 4, 5, 2], [6, 2, 0, 0]])
    target = torch.tensor([[1, 3, 4, 2], [1, 7, 2, 0]])
    losses = plain.loss(model, source, target), translation_loss(package, source, target)
    assert difference(*losses) < 1e-9
    for each in losses:
        each.backward()
    grads = model.source_embedding.weight.grad, package.source_embedding.tokens.weight.grad
    assert difference(*grads) < 1e-9

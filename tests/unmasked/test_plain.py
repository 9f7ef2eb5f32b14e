"""The plain Transformer computes what the package computes."""

import pytest
import torch

import unmasked
from unmasked import plain
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
    assert torch.equal(model.generate(source, 60), greedy(translator.model, source, 60))
    assert model.generate(source, 3).shape == (12, 3)


def test_it_passes_every_question():
    torch.manual_seed(0)
    model = plain.Transformer(12, 14, 32, 4, 2, 64)
    report = unmasked.check(model, source_vocab=12, target_vocab=14, quiet=True)
    assert report.ok

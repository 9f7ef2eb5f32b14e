"""The plain Transformer computes what the package computes."""

import pytest
import torch

import unmasked
from helpers import SMALL, VOCABULARY, as_target, difference, ragged, small_model
from unmasked import plain
from unmasked.loss import translation_loss
from unmasked.search import greedy
from unmasked.tokens import Words
from unmasked.translator import Translator
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


@pytest.mark.parametrize("tie", [False, "output", True])
def test_a_file_that_the_package_saved_is_read_unless_it_is_another_transformer(tmp_path, tie):
    words = Words.of(["a b c"])
    sizes = {"source_vocab": len(words), "target_vocab": len(words), "tie_embeddings": tie}
    package, file = small_model(norm="pre", **sizes).float(), tmp_path / "m.safetensors"
    Translator(package, words, words).save(file)
    model = plain.Transformer.from_pretrained(str(file))
    assert sum(p.numel() for p in model.parameters()) == package.count_parameters()
    source, target = ragged([4, 2], 6), ragged([2, 3], 6)
    assert difference(model(source, target), package(source, target)) < 1e-4
    Translator(small_model(norm="pre", activation="gelu", **sizes), words, words).save(file)
    with pytest.raises(ValueError, match=r"activation='gelu' is not ours; use unmasked.load"):
        plain.Transformer.from_pretrained(str(file))


def test_loss_and_gradients_equal_those_of_the_package():
    package = small_model(norm="pre", dropout=0.0)
    model = plain.Transformer(VOCABULARY, VOCABULARY, **SMALL, dropout=0.0).double()
    model.load_state_dict({plain.renamed(key): x for key, x in package.state_dict().items()})
    source, target = ragged([4, 2]), as_target(ragged([2, 1]))
    losses = plain.loss(model, source, target), translation_loss(package, source, target)
    assert difference(*losses) < 1e-9
    for each in losses:
        each.backward()
    grads = model.source_embedding.weight.grad, package.source_embedding.tokens.weight.grad
    assert difference(*grads) < 1e-9

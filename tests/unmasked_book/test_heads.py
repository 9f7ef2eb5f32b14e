"""Tests the atlas of heads on maps whose answers are known."""

import torch

from helpers import difference, small_config
from unmasked import Transformer
from unmasked.evaluation import SentenceMaps, maps_of_pairs
from unmasked.tokens import Words
from unmasked.translator import Translator
from unmasked_book import heads
from unmasked_book.heads import ROLES, head_atlas


def test_each_role_is_found_by_the_head_that_plays_it(monkeypatch):
    def measured(links, encoder, decoder, cross):
        """Measures one layer with one head, whose queries look at one place each."""
        source, target = torch.eye(len(encoder)), torch.eye(len(decoder))
        maps = (each[None, None] for each in (source[encoder], target[decoder], source[cross]))
        monkeypatch.setattr(heads, "maps_of_pairs", lambda *_: [SentenceMaps(*maps)])
        return head_atlas(None, [("", "")], [links])

    found = measured({(3, 1)}, [0, 0, 1, 2], [0, 0, 1], [3, 3, 3])
    assert found["encoder"]["previous"] == found["cross"]["aligned"] == 1.0
    assert found["encoder"]["next"] == 0.0
    assert found["decoder"]["beginning"] == torch.tensor(2.0) / 3
    found = measured({(0, 0), (0, 1), (2, 1)}, [1, 2, 3, 3], [0, 1, 2], [0, 1, 2])
    assert found["encoder"]["next"] == 1.0
    assert found["cross"]["aligned"] == 0.5  # the first word looks at its own, the second not


def test_every_head_of_every_layer_is_measured():
    words, pairs = Words.of(["a b c d"]), [("a b", "c d a"), ("c", "b"), ("d c b a", "a b")]
    config = small_config(source_vocab=len(words), target_vocab=len(words), n_heads=2)
    made = Translator(Transformer(config).double().eval(), words, words)
    links = [{(0, 0), (1, 2)}, {(0, 0)}, {(3, 0), (2, 1)}]
    found, aligned = head_atlas(made, pairs, links), []
    assert {kind: tuple(roles) for kind, roles in found.items()} == ROLES
    for each, linked in zip(maps_of_pairs(made, pairs), links, strict=True):
        aligned += [each.cross[:, :, target, source] for source, target in linked]
    assert difference(found["cross"]["aligned"], torch.stack(aligned).mean(0)) < 1e-12

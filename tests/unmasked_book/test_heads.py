"""The atlas of heads, on maps whose answers are known."""

import torch

from helpers import difference, small_config
from unmasked import Transformer
from unmasked.evaluation import SentenceMaps, maps_of_pairs
from unmasked.tokens import Words
from unmasked.translator import Translator
from unmasked_book import heads
from unmasked_book.heads import ROLES, head_atlas

WORDS = Words.of(["a b c d"])
PAIRS = [("a b", "c d a"), ("c", "b"), ("d c b a", "a b")]


def translator():
    config = small_config(source_vocab=len(WORDS), target_vocab=len(WORDS), n_heads=2)
    return Translator(Transformer(config).double().eval(), WORDS, WORDS)


def only(places, queries, keys):
    """One layer and one head: each query looks at one place."""
    weights = torch.zeros(1, 1, queries, keys)
    for query, key in enumerate(places):
        weights[0, 0, query, key] = 1.0
    return weights


def maps(encoder, decoder, cross):
    s, t = len(encoder), len(decoder)
    return SentenceMaps(only(encoder, s, s), only(decoder, t, t), only(cross, t, s))


def test_each_role_is_found_by_the_head_that_plays_it(monkeypatch):
    def measured(given, links):
        monkeypatch.setattr(heads, "maps_of_pairs", lambda *_: [given])
        return head_atlas(None, [("", "")], [links])

    previous = maps([0, 0, 1, 2], [0, 0, 1], [3, 3, 3])
    found = measured(previous, {(3, 1)})
    assert found["encoder"]["previous"] == found["cross"]["aligned"] == 1.0
    assert found["encoder"]["next"] == 0.0
    assert found["decoder"]["beginning"] == torch.tensor(2.0) / 3
    following = measured(maps([1, 2, 3, 3], [0, 1, 2], [0, 1, 2]), {(0, 0), (0, 1), (2, 1)})
    assert following["encoder"]["next"] == 1.0
    assert following["cross"]["aligned"] == 0.5  # the first word looks at its own, the second not


def test_every_head_of_every_layer_is_measured():
    made, links = translator(), [{(0, 0), (1, 2)}, {(0, 0)}, {(3, 0), (2, 1)}]
    found = head_atlas(made, PAIRS, links)
    assert {kind: tuple(roles) for kind, roles in found.items()} == ROLES
    aligned, previous = [], []
    for each, pairs in zip(maps_of_pairs(made, PAIRS), links, strict=True):
        aligned += [each.cross[:, :, target, source] for source, target in pairs]
        rows = range(1, each.encoder.shape[2])
        previous += [each.encoder[:, :, row, row - 1] for row in rows]
    assert difference(found["cross"]["aligned"], torch.stack(aligned).mean(0)) < 1e-12
    assert difference(found["encoder"]["previous"], torch.stack(previous).mean(0)) < 1e-12

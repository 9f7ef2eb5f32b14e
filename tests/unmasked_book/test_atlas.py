"""The atlas of heads, on maps whose answers are known."""

import pytest
import torch

from helpers import difference, small_config
from unmasked import Transformer, atlas
from unmasked.data.vocabulary import Words
from unmasked.evaluation import SentenceMaps, maps_of_pairs
from unmasked.translator import Translator
from unmasked_book.heads import ROLES

WORDS = Words.of(["a b c d"])
PAIRS = [("a b", "c d a"), ("c", "b"), ("d c b a", "a b")]
NONE = [frozenset()] * len(PAIRS)


def translator():
    config = small_config(source_vocab=len(WORDS), target_vocab=len(WORDS), n_heads=2)
    return Translator(Transformer(config).double().eval(), WORDS, WORDS)


def only(places, queries, keys):
    """One layer and one head: each query looks at one place."""
    weights = torch.zeros(1, 1, queries, keys)
    for query, key in enumerate(places):
        weights[0, 0, query, key] = 1.0
    return weights


@pytest.fixture
def measured(monkeypatch):
    """The atlas of given maps."""

    def measure(*maps, links=None):
        monkeypatch.setattr(atlas, "maps_of", lambda *_: iter(maps))
        empty = [frozenset()] * len(maps)
        found = atlas.atlas(None, [("", "")] * len(maps), empty if links is None else links)
        return {
            (kind, role): round(float(value), 6)
            for kind, roles in found.items()
            for role, value in roles.items()
        }

    return measure


def maps(encoder, decoder, cross):
    s, t = len(encoder), len(decoder)
    return SentenceMaps(only(encoder, s, s), only(decoder, t, t), only(cross, t, s))


def test_each_role_is_found_by_the_head_that_plays_it(measured):
    previous = maps([0, 0, 1, 2], [0, 0, 1], [3, 3, 3])
    found = measured(previous, links=[{(3, 1)}])
    assert found["encoder", "previous"] == found["decoder", "previous"] == 1.0
    assert found["encoder", "itself"] == 0.25
    assert found["decoder", "itself"] == pytest.approx(1 / 3, abs=1e-6)
    assert found["encoder", "next"] == found["encoder", "end"] == 0.0
    assert found["decoder", "beginning"] == pytest.approx(2 / 3, abs=1e-6)
    assert found["cross", "end"] == found["cross", "aligned"] == 1.0
    following = measured(maps([1, 2, 3, 3], [0, 1, 2], [0, 1, 2]), links=[{(0, 0), (0, 1), (2, 1)}])
    assert following["encoder", "next"] == 1.0
    assert following["encoder", "end"] == 0.5
    assert following["decoder", "itself"] == 1.0
    assert following["cross", "aligned"] == 0.5  # the first word looks at its own, the second not
    assert following["cross", "end"] == 0.0
    later = measured(maps([0, 1, 2], [0, 1], [2, 1]), links=[{(0, 0), (1, 0), (0, 1)}])
    assert later["cross", "after it"] == 1.0  # the third word comes after the two of the first …
    assert later["cross", "aligned"] == 0.0  # … and the second word looks past its own


def test_queries_without_such_a_place_do_not_count(measured):
    """A sentence of one word and its end has one previous word; others are averaged by query."""
    short, long = maps([0, 0], [0], [0]), maps([0, 1, 2, 3, 4], [0, 1], [0, 0])
    found = measured(short, long, links=[{(0, 0)}, frozenset()])
    assert found["encoder", "previous"] == 1 / 5
    assert found["cross", "aligned"] == 1.0


def test_every_head_of_every_layer_is_measured():
    made = translator()
    links = [{(0, 0), (1, 2)}, {(0, 0)}, {(3, 0), (2, 1)}]
    found = atlas.atlas(made, PAIRS, links)
    assert {kind: tuple(roles) for kind, roles in found.items()} == ROLES
    total = count = 0
    for each, pairs in zip(maps_of_pairs(made, PAIRS), links, strict=True):
        for source, target in pairs:
            total, count = total + each.cross[:, :, target, source], count + 1
    assert difference(found["cross"]["aligned"], total / count) < 1e-12
    previous = [
        maps.encoder[:, :, row, row - 1]
        for maps in maps_of_pairs(made, PAIRS)
        for row in range(1, maps.encoder.shape[2])
    ]
    assert difference(found["encoder"]["previous"], torch.stack(previous).mean(0)) < 1e-12


@pytest.mark.parametrize(("pairs", "links"), [(PAIRS, NONE[:2]), ([], [])])
def test_each_pair_needs_its_alignment(pairs, links):
    with pytest.raises(ValueError, match=r"^alignments: expected one for each pair, at least one"):
        atlas.atlas(translator(), pairs, links)

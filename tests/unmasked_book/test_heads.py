"""Words that belong together are found; the atlas of heads, on maps whose answers are known."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import difference, small_config
from helpers.refusals import refusals
from unmasked import Transformer
from unmasked.evaluation import SentenceMaps, maps_of_pairs
from unmasked.text.phrasebook import sentence_pairs
from unmasked.tokens import Words
from unmasked.translator import Translator
from unmasked_book import heads
from unmasked_book.heads import ROLES, align, head_atlas, word_of_each

# --- Words that belong together ---------------------------------------------------------------


def test_the_phrasebooks_alignments_are_found():
    drawn = sentence_pairs(1500, seed=0)
    german = Words.of(pair.german for pair in drawn)
    english = Words.of(pair.english for pair in drawn)
    found = align(
        [german.encode(pair.german) for pair in drawn],
        [english.encode(pair.english) for pair in drawn],
    )
    right = sum(len(links & pair.alignment) for links, pair in zip(found, drawn, strict=True))
    assert right / sum(map(len, found)) > 0.93
    assert right / sum(len(pair.alignment) for pair in drawn) > 0.75


@given(st.lists(st.tuples(*[st.lists(st.integers(3, 9), min_size=1, max_size=5)] * 2), min_size=1))
def test_each_word_has_one_link_at_most_and_each_link_two_words(drawn):
    source, target = ([list(pair[side]) for pair in drawn] for side in (0, 1))
    for links, a, b in zip(align(source, target), source, target, strict=True):
        assert all(s < len(a) and t < len(b) for s, t in links)
        assert len({s for s, _ in links}) == len({t for _, t in links}) == len(links)


# --- Words in pieces --------------------------------------------------------------------------


def test_each_piece_belongs_to_its_word():
    pieces = ["▁ein", "▁eis", "ver", "käufer", ",", "▁", "x", "▁geht", "."]
    assert word_of_each(pieces, ["ein", "eisverkäufer", ",", "x", "geht", "."]) == [
        0, 1, 1, 1, 2, 3, 3, 4, 5,
    ]  # fmt: skip


# --- What heads look at -----------------------------------------------------------------------

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


@pytest.fixture
def measured(monkeypatch):
    """The atlas of given maps."""

    def measure(*maps, links):
        monkeypatch.setattr(heads, "maps_of_pairs", lambda *_: iter(maps))
        found = head_atlas(None, [("", "")] * len(maps), links)
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
    assert found["encoder", "previous"] == found["cross", "aligned"] == 1.0
    assert found["encoder", "next"] == 0.0
    assert found["decoder", "beginning"] == round(2 / 3, 6)
    following = measured(maps([1, 2, 3, 3], [0, 1, 2], [0, 1, 2]), links=[{(0, 0), (0, 1), (2, 1)}])
    assert following["encoder", "next"] == 1.0
    assert following["cross", "aligned"] == 0.5  # the first word looks at its own, the second not


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


test_what_does_not_fit_together_is_refused = refusals(
    (lambda: align([], []), ""),
    (lambda: align([[1, 2], []], [[3], [4]]), "target"),
    (lambda: word_of_each(["▁a", "<unk>"], ["a", "b"]), "pieces"),
    (lambda: head_atlas(translator(), PAIRS, [frozenset()] * 2), "alignments"),
)

"""What chapter 12 measures inside a model: compared with the model itself, computed another way."""

import pytest
import torch

import unmasked
from unmasked_book.captions import caption_pairs
from unmasked_book.inside import batch_of, caption_links, stream_parts


@pytest.fixture(scope="module")
def translator():
    return unmasked.load("en-de")


def test_links_of_captions_join_the_pieces_of_words_that_belong_together(translator):
    pairs, links = caption_pairs(translator), caption_links(translator)
    source, target = (translator.source.pieces(text.lower()) for text in pairs[8])
    assert {(source[s], target[t]) for s, t in links[8]} >= {("▁cake", "▁kuchen"), ("▁on", "▁auf")}


def test_what_is_added_to_the_stream_adds_up_to_it(translator):
    model, read = translator.model, batch_of(translator, caption_pairs(translator)[:6])
    names, parts = zip(*stream_parts(model, read.source, read.inputs), strict=True)
    assert names[:4] == ("embedding", "1 self-attention", "1 cross-attention", "1 feed-forward")
    assert len(parts) == 1 + 3 * 4
    with torch.no_grad():
        logits = model(read.source, read.inputs)
        added_up = model.generator(model.decoder.norm(sum(parts)))
    assert torch.allclose(added_up, logits, atol=1e-3)

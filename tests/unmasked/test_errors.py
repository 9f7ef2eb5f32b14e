"""A refusal says which argument is wrong and what came, and comes before anything changes."""

import re

import pytest
import torch
from torch.nn import functional as F

from helpers import ragged, small_config, small_model
from helpers.refusals import refusals
from unmasked import LayerConfig, MultiHeadAttention, Transformer, TransformerConfig, masks
from unmasked.attention import additive_attention, attention, masked_softmax
from unmasked.loss import translation_loss
from unmasked.masks import padding_mask
from unmasked.search import beam, greedy, sample
from unmasked.training.fit import fit

MODEL, OWN, HOOKED = small_model(), small_model(), small_model()
BROKEN = small_model()
BROKEN.generator.weight.data.fill_(torch.nan)
OWN.forward = OWN.encode  # a search would not call this, nor a hook on the whole model
HOOKED.register_forward_hook(lambda _, __, x: 5 * x)
SUBCLASS = type("Subclass", (Transformer,), {"forward": Transformer.encode})(MODEL.config)
LEARNED = small_model(positions="learned", max_len=4)
SOURCE, TARGET, LONG = ragged([4, 2]), ragged([3, 3]), ragged([5, 5])
MEMORY, MASK = MODEL.encode(SOURCE).detach(), padding_mask(SOURCE)
HEADS = MultiHeadAttention(8, 2)
X = torch.zeros(2, 3, 8)
Q = torch.zeros(2, 2, 3, 4)
FOUR = ragged([3] * 4)  # as many sentences as heads: a mask of rank 3 may be for either
SIZES = {"source_vocab": 9, "target_vocab": 9}


def true(*sizes):
    return torch.ones(sizes, dtype=torch.bool)


def loss(target, source=SOURCE, **options):
    return translation_loss(MODEL, source, target, **options)


def decode(target=TARGET, memory=MEMORY, source_mask=MASK, model=MODEL, **options):
    return model.decode(target, memory, source_mask=source_mask, **options)


REFUSED = [  # the call, the argument that its message begins with, and what came or was expected
    (lambda: MODEL.encode(SOURCE.float()), "source", "torch.float32"),
    (lambda: MODEL(0 * SOURCE + 42, TARGET), "source", "token 42"),
    (lambda: decode(TARGET[:1]), "target", "1"),
    (lambda: loss(F.pad(TARGET[:, :1], (0, 2))), "target", "padding only"),
    (lambda: loss(TARGET, 0 * SOURCE, packed=True), "source", "padding only"),
    (lambda: loss(F.pad(TARGET, (0, 1), value=99)), "target", "token 99"),
    (lambda: loss(TARGET, smoothing="much"), "smoothing", "'much'"),
    (lambda: translation_loss(HOOKED, SOURCE, TARGET), "model", "a hook on the whole of it"),
    (lambda: decode(target_mask=true(2, 2)), "target_mask", "[2, 2]"),
    (lambda: MODEL.encode(SOURCE, source_mask=MASK[..., :-1]), "source_mask", "[2, 1, 1, 3]"),
    (lambda: MODEL(FOUR, FOUR, target_mask=true(4, 3, 3)), "target_mask", "[4, 3, 3]"),
    (lambda: MODEL(FOUR[:3], FOUR[:3], source_mask=true(3, 3)), "source_mask", "[3, 3]"),
    (lambda: HEADS(X, X, X), "mask", "torch.float32"),
    (lambda: HEADS(X[0]), "x", "shape [3, 8]"),
    (lambda: HEADS(X, X[:1]), "y", "1"),
    (lambda: HEADS(X, value=X[:1]), "value", "1"),
    (lambda: HEADS(X, value=X[:, :2]), "value", "2"),
    (lambda: HEADS(X, mask=true(2, 3, 3)), "mask", "rank 4 or 2, got [2, 3, 3]"),
    (lambda: decode(state=small_model(n_layers=3).start()), "state", "3"),
    (lambda: MODEL(SOURCE, TARGET, maps=[]), "maps", "an AttentionMaps, got list"),
    (lambda: attention(Q, Q, Q[:, :, :2]), "value", "2"),
    (lambda: attention(Q, Q, Q, true(3, 4)), "mask", "the scores' [2, 2, 3, 3], got [3, 4]"),
    (lambda: masked_softmax(Q, torch.ones(3, 4)), "mask", "torch.float32"),
    (lambda: additive_attention(Q, Q, Q, torch.zeros(5)), "vector", "[5]"),
    (lambda: masks.length_mask(torch.tensor([1, 5]), 3), "lengths", "1 to 5"),
    (lambda: masks.from_blocked(SOURCE), "blocked", "torch.int64"),
    (lambda: masks.from_ones(torch.tensor([0.0, -torch.inf])), "ones", "others"),
    (lambda: masks.from_additive(torch.tensor([1.0, 0.0])), "additive", "1"),
    (lambda: loss(TARGET, total=-3), "total", "-3"),
    (lambda: loss(TARGET, packed="no"), "packed", "str"),
    (lambda: greedy(MODEL, SOURCE, use_cache="no"), "use_cache", "str"),
    (lambda: greedy(MODEL, [[1, 2]]), "source", "list"),
    (lambda: greedy(MODEL, SOURCE[:0]), "source", "shape [0, 4]"),
    (lambda: fit(MODEL, loss, iter([])), "batches", "none"),
    (lambda: greedy(BROKEN, SOURCE), "model", "NaN"),
    (lambda: LEARNED(SOURCE, ragged([6, 2])), "positions", "position 5"),
    (lambda: small_config(n_heads=3), "n_heads", "a divisor of d_model=16, got 3"),
    (lambda: small_config(norm="middle"), "norm", "'post' or 'pre', got 'middle'"),
    (lambda: small_config(tie_embeddings=True, source_vocab=9), "tie_embeddings", "9 and 23"),
    (lambda: small_config(dropout=10**400), "dropout", str(10**400)),
    (lambda: small_config(n_layers=10_001), "n_layers", "at most 10,000, got 10001"),
    (lambda: small_config(d_model=512, max_len=131_073), "max_len", "at most 131,072, got 131073"),
    (lambda: TransformerConfig.preset("huge", **SIZES), "name", "'huge'"),
    (lambda: small_config(n_decoder_layers=1.5), "n_decoder_layers", "1.5"),
    (lambda: Transformer(LayerConfig()), "config", "LayerConfig"),
    (lambda: greedy(OWN, SOURCE), "model", "encode, decode or generator, got a forward of its own"),
    (lambda: beam(HOOKED, SOURCE), "model", "a hook on the whole of it"),
    (lambda: sample(SUBCLASS, SOURCE), "model", "a forward of its own"),
    (lambda: greedy(LEARNED, SOURCE, 5), "max_new_tokens", "5"),
    (lambda: beam(MODEL, SOURCE, 24), "beam_size", "24"),
    (lambda: beam(MODEL, SOURCE, 2, n_best=3), "n_best", "3"),
    (lambda: sample(MODEL, SOURCE, seed=2**32), "seed", "4294967296"),
    (lambda: sample(MODEL, SOURCE, temperature=0.0), "temperature", "0.0"),
    (lambda: sample(MODEL, SOURCE, top_p=1.5), "top_p", "1.5"),
]


test_a_refusal_names_the_argument_and_what_came = refusals(*(
    (call, rf"{argument}: expected .*{re.escape(said if ', got ' in said else f', got {said}')}; .")
    for call, argument, said in REFUSED
))  # fmt: skip


# --- Nothing has changed when a call is refused ---------------------------------------------------


def test_a_refused_call_leaves_the_state_as_it_was():
    state, learned = LEARNED.start(), {"model": LEARNED, "memory": LEARNED.encode(SOURCE)}
    decode(**learned, state=state)
    real = state.real
    for argument, options in (
        ("source_mask", {"source_mask": true(9)}),
        ("source_mask", {"source_mask": None}),
        ("target_mask", {"target_mask": true(9)}),
        ("target", {"target": TARGET + 30}),
        ("positions", {"target": TARGET[:, :2]}),
        ("memory", {"memory": MEMORY[..., :3]}),
        ("state", {"target": TARGET[:1], "memory": MEMORY[:1], "source_mask": MASK[:1]}),
        ("state", {"memory": MODEL.encode(LONG), "source_mask": padding_mask(LONG)}),
    ):
        with pytest.raises(ValueError, match=f"^{argument}: "):
            decode(**{**learned, **options}, state=state)
        assert (state.length, *(back.length for back, _ in state.looks)) == (3, 3, 3)
        assert state.real is real
    last = decode(TARGET[:, :1], **learned, state=state)
    whole = decode(TARGET[:, [0, 1, 2, 0]], **learned)
    torch.testing.assert_close(last, whole[:, 3:], atol=1e-12, rtol=0)

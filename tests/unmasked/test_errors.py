"""A refusal says which argument is wrong and what came, and comes before anything changes."""

import re

import pytest
import torch

from helpers import VOCABULARY, layer_config, ragged, small_config, small_model
from unmasked import LayerConfig, MultiHeadAttention, Transformer, errors, masks
from unmasked.attention import KeyValueCache, additive_attention, attention, attention_weights
from unmasked.decoder import Decoder, DecoderLayer
from unmasked.encoder import EncoderLayer
from unmasked.errors import invalid
from unmasked.feed_forward import FeedForward
from unmasked.kernels import Dropout
from unmasked.loss import teacher_forcing, translation_loss
from unmasked.masks import padding_mask
from unmasked.positions import LearnedPositions, SinusoidalPositions, shift_matrix
from unmasked.search import beam, greedy

MODEL = small_model()
LEARNED = small_model(positions="learned", max_len=4)
SOURCE, TARGET = ragged([4, 2]), ragged([3, 3])
MEMORY, MASK = MODEL.encode(SOURCE).detach(), padding_mask(SOURCE)
HEADS = MultiHeadAttention(8, 2)
STACK = Decoder(LayerConfig(d_model=8, n_heads=2), 1)
X = torch.zeros(2, 3, 8)
Q = torch.zeros(2, 2, 3, 4)
EVEN = torch.tensor([1, 0])


def true(*sizes):
    return torch.ones(sizes, dtype=torch.bool)


def config(**changes):
    return lambda: small_config(**changes)


def decode(target=TARGET, memory=MEMORY, source_mask=MASK, **options):
    return MODEL.decode(target, memory, source_mask=source_mask, **options)


def other_batch():
    state = MODEL.start()
    decode(state=state)
    decode(TARGET[:1], MEMORY[:1], MASK[:1], state=state)


def other_heads():
    cache = KeyValueCache()
    cache.append(Q, Q)
    cache.append(Q[:1], Q[:1])


def packed(source=SOURCE, target=TARGET):
    return translation_loss(MODEL, source, target, packed=True)


def last_label(token):
    target = TARGET.clone()
    target[0, -1] = token
    return target


REFUSED = [  # the call, the argument that its message begins with, and what the message says came
    # --- tokens
    (lambda: MODEL(SOURCE[0], TARGET), "source", "shape [4]"),
    (lambda: MODEL(SOURCE, TARGET[0]), "target", "shape [3]"),
    (lambda: MODEL.encode(SOURCE[0]), "source", "shape [4]"),
    (lambda: MODEL.encode(SOURCE.float()), "source", "torch.float32"),
    (lambda: MODEL.encode([[3, 4]]), "source", "list"),
    (lambda: MODEL(SOURCE + 20, TARGET), "source", f"token {int(SOURCE.max()) + 20}"),
    (lambda: MODEL(SOURCE, TARGET - 50), "target", f"token {int(TARGET.min()) - 50}"),
    (lambda: MODEL(SOURCE[:0], TARGET[:0]), "source", "shape [0, 4]"),
    (lambda: MODEL(SOURCE, TARGET[:, :0]), "target", "shape [2, 0]"),
    (lambda: MODEL(SOURCE, TARGET[:1]), "target", "1"),
    (lambda: decode(TARGET[:1]), "target", "1"),
    (lambda: decode(TARGET.float()), "target", "torch.float32"),
    # --- the loss
    (lambda: teacher_forcing(TARGET[0]), "target", "shape [3]"),
    (lambda: translation_loss(MODEL, SOURCE, TARGET[:, :1]), "target", "shape [2, 1]"),
    (lambda: translation_loss(MODEL, SOURCE, TARGET[:1]), "target", "1"),
    (lambda: packed(SOURCE[:1]), "target", "2"),
    (lambda: translation_loss(MODEL, SOURCE, TARGET * EVEN[[0, 1, 1]]), "target", "padding only"),
    (lambda: packed(target=TARGET * EVEN[[0, 1, 0]]), "target", "padding before one"),
    (lambda: packed(0 * SOURCE), "source", "padding only"),
    (lambda: packed(SOURCE + 20), "source", f"token {int(SOURCE.max()) + 20}"),
    (lambda: packed(target=last_label(99)), "target", "token 99"),
    (lambda: translation_loss(None, SOURCE, TARGET), "model", "NoneType"),
    (lambda: translation_loss(MODEL, SOURCE, TARGET, smoothing="much"), "smoothing", "'much'"),
    # --- vectors
    (lambda: HEADS(None), "query", "NoneType"),
    (lambda: HEADS(X[0]), "query", "shape [3, 8]"),
    (lambda: HEADS(X[:, :, :5]), "query", "shape [2, 3, 5]"),
    (lambda: HEADS(X, key=X[:, :, :5]), "key", "shape [2, 3, 5]"),
    (lambda: HEADS(X, key=X, value=X[:, :, :5]), "value", "shape [2, 3, 5]"),
    (lambda: HEADS(X, key=X[:1]), "key", "1"),
    (lambda: HEADS(X, mask=true(3, 4)), "mask", "[3, 4]"),
    (lambda: FeedForward(8, 4)(X[:, :0]), "x", "shape [2, 0, 8]"),
    (lambda: EncoderLayer(layer_config())(X), "query", "shape [2, 3, 8]"),
    (lambda: STACK(X, X[:1]), "memory", "1"),
    (lambda: STACK(X[:, :, :5], X), "x", "shape [2, 3, 5]"),
    (lambda: STACK(X, X, mask=true(3, 4)), "mask", "[3, 4]"),
    (lambda: STACK(X, X, memory_mask=true(2, 1, 1, 4)), "memory_mask", "[2, 1, 1, 4]"),
    (lambda: decode(memory=MEMORY[0]), "memory", "shape [4, 16]"),
    (lambda: decode(memory=MEMORY[..., :8]), "memory", "shape [2, 4, 8]"),
    # --- the model's masks and states
    (lambda: MODEL(SOURCE, TARGET, source_mask=true(2, 5)), "source_mask", "[2, 5]"),
    (lambda: MODEL.encode(SOURCE, source_mask=true(2, 5)), "source_mask", "[2, 5]"),
    (lambda: MODEL(SOURCE, TARGET, target_mask=torch.ones(3, 3)), "target_mask", "torch.float32"),
    (lambda: decode(source_mask=true(2, 1, 1, 3)), "source_mask", "[2, 1, 1, 3]"),
    (lambda: decode(source_mask=None), "source_mask", "None"),
    (lambda: decode(target_mask=true(2, 2)), "target_mask", "[2, 2]"),
    (lambda: decode(state=small_model(n_layers=3).start()), "state", "3"),
    (other_batch, "state", "2"),
    # --- attention
    (lambda: attention([1.0], Q, Q), "query", "list"),
    (lambda: attention(Q[0, 0, 0], Q, Q), "query", "[4]"),
    (lambda: attention(Q, Q[..., :3], Q), "key", "3"),
    (lambda: attention_weights(Q, Q[..., :3]), "key", "3"),
    (lambda: attention(Q, Q, Q[:, :, :2]), "value", "2"),
    (lambda: attention(Q, Q, Q, dropout=1.5), "dropout", "1.5"),
    (lambda: attention(Q, Q, Q, torch.ones(3, 3)), "mask", "torch.float32"),
    (lambda: attention(Q, Q, Q, true(3, 4)), "mask", "[3, 4]"),
    (lambda: attention(Q, Q, Q, true(2, 3), maps=[]), "mask", "[2, 3]"),
    (lambda: attention(Q, Q, Q, true(1, 1, 1, 1, 1)), "mask", "[1, 1, 1, 1, 1]"),
    (lambda: additive_attention(Q, Q, Q, torch.zeros(5)), "vector", "[5]"),
    (lambda: MultiHeadAttention(10, 4), "n_heads", "4"),
    (lambda: MultiHeadAttention(8, 2, dropout=-1), "dropout", "-1"),
    (lambda: KeyValueCache(0), "capacity", "0"),
    (lambda: KeyValueCache().read(), "cache", "an empty cache"),
    (other_heads, "keys", "[1, 2]"),
    # --- masks
    (lambda: padding_mask(SOURCE[0]), "tokens", "shape [4]"),
    (lambda: masks.causal_mask(0), "n", "0"),
    (lambda: masks.causal_mask(3, past=-1), "past", "-1"),
    (lambda: masks.length_mask(torch.zeros(1, 1, 1).long(), 3), "lengths", "[1, 1, 1]"),
    (lambda: masks.length_mask(torch.tensor([2.0]), 3), "lengths", "torch.float32"),
    (lambda: masks.length_mask(torch.tensor([1, 5]), 3), "lengths", "1 to 5"),
    (lambda: masks.length_mask(EVEN, 0), "n", "0"),
    (lambda: masks.from_blocked(EVEN), "blocked", "torch.int64"),
    (lambda: masks.from_additive(EVEN), "additive", "torch.int64"),
    (lambda: masks.to_additive(EVEN.float()), "mask", "torch.float32"),
    (lambda: masks.from_ones([1, 0]), "ones", "list"),
    # --- positions
    (lambda: shift_matrix(5, 1), "d_model", "5"),
    (lambda: LEARNED(SOURCE, ragged([6, 2])), "positions", "position 5"),
    (lambda: LEARNED.encode(ragged([5])), "positions", "position 4"),
    (lambda: LearnedPositions(4, 3)(torch.zeros(1, 2, 4), start=2), "positions", "position 3"),
    (lambda: SinusoidalPositions(4, max_len=0), "max_len", "0"),
    (lambda: LearnedPositions(0), "d_model", "0"),
    # --- configuration
    (config(n_heads=3), "n_heads", "3"),
    (config(norm="middle"), "norm", "'middle'"),
    (config(feed_forward="rnn"), "feed_forward", "'rnn'"),
    (config(activation="tanh"), "activation", "'tanh'"),
    (config(positions="none"), "positions", "'none'"),
    (config(tie_embeddings="all"), "tie_embeddings", "'all'"),
    (config(tie_embeddings=1), "tie_embeddings", "1"),
    (config(tie_embeddings=True, source_vocab=9), "tie_embeddings", f"9 and {VOCABULARY}"),
    (config(dropout=1.0), "dropout", "1.0"),
    (config(dropout=None), "dropout", "None"),
    (config(inner_dropout=-0.1), "inner_dropout", "-0.1"),
    (config(norm_eps=-1.0), "norm_eps", "-1.0"),
    (config(embedding_std=-1.0), "embedding_std", "-1.0"),
    (config(bias="no"), "bias", "'no'"),
    (config(attention_bias=0), "attention_bias", "0"),
    (config(n_layers=0), "n_layers", "0"),
    (config(n_decoder_layers=1.5), "n_decoder_layers", "1.5"),
    (config(source_vocab=True), "source_vocab", "True"),
    (lambda: Dropout(2.0), "dropout", "2.0"),
    (lambda: FeedForward(8, 4, kind="rnn"), "kind", "'rnn'"),
    (lambda: Transformer(LayerConfig()), "config", "LayerConfig"),
    (lambda: DecoderLayer(None), "config", "NoneType"),
    (lambda: Decoder(None, 1), "config", "NoneType"),
    # --- search
    (lambda: greedy(MODEL.config, SOURCE), "model", "TransformerConfig"),
    (lambda: greedy(MODEL, SOURCE[0]), "source", "shape [4]"),
    (lambda: greedy(MODEL, SOURCE, 0), "max_new_tokens", "0"),
    (lambda: greedy(LEARNED, SOURCE, 5), "max_new_tokens", "5"),
    (lambda: greedy(MODEL, SOURCE, bos=0), "bos", "0"),
    (lambda: greedy(MODEL, SOURCE, eos=23), "eos", "23"),
    (lambda: greedy(MODEL, SOURCE, eos=1.5), "eos", "1.5"),
    (lambda: beam(MODEL, SOURCE, 24), "beam_size", "24"),
    (lambda: beam(MODEL, SOURCE, 0), "beam_size", "0"),
    (lambda: beam(MODEL, SOURCE, 2, n_best=3), "n_best", "3"),
    (lambda: beam(MODEL, SOURCE, 2, length_penalty=-1.0), "length_penalty", "-1.0"),
    (lambda: beam(MODEL, SOURCE, 2, length_penalty=float("nan")), "length_penalty", "nan"),
]


@pytest.mark.parametrize(
    ("call", "argument", "got"),
    REFUSED,
    ids=[f"{number} {argument}" for number, (_, argument, _) in enumerate(REFUSED)],
)
def test_a_refusal_names_the_argument_and_what_came(call, argument, got):
    with pytest.raises(ValueError, match=rf"^{argument}: expected .+, got {re.escape(got)}; .+$"):
        call()


GOLDEN = {  # one whole message of each kind
    "type": (
        lambda: errors.check_type("config", 3, LayerConfig, Dropout),
        "config: expected a LayerConfig or a Dropout, got int; pass one",
    ),
    "choice": (
        config(norm="middle"),
        "norm: expected 'post' or 'pre', got 'middle'; choose one of these",
    ),
    "at least": (
        config(n_layers=0),
        "n_layers: expected a whole number of at least 1, got 0; pass 1 or more",
    ),
    "heads": (
        config(n_heads=3),
        "n_heads: expected a divisor of d_model=16, got 3; "
        "every head takes an equal share of the width",
    ),
    "number": (
        config(norm_eps=-1.0),
        "norm_eps: expected a number from 1e-30 to 1, got -1.0; PyTorch's own is 1e-5",
    ),
    "probability": (
        config(dropout=1.0),
        "dropout: expected a probability in [0, 1), got 1.0; "
        "1 would leave nothing, so stay below it",
    ),
    "tokens": (
        lambda: MODEL.encode(SOURCE[0]),
        "source: expected rank 2, [batch, length], got shape [4]; "
        "a single sentence needs a batch dimension too: tokens.unsqueeze(0)",
    ),
    "vocabulary": (
        lambda: MODEL.encode(torch.tensor([[23]])),
        "source: expected tokens from 0 to 22, got token 23; "
        "enlarge the vocabulary in the configuration, or map unknown words to a known token",
    ),
    "vectors": (
        lambda: HEADS(X[:, :, :5]),
        "query: expected vectors of width 8, got shape [2, 3, 5]; "
        "the module and its input must agree on the width",
    ),
    "boolean": (
        lambda: attention(Q, Q, Q, torch.ones(3, 3)),
        "mask: expected a boolean tensor, got torch.float32; "
        "True means 'may attend': see masks.from_ones, from_blocked and from_additive",
    ),
    "mask": (
        lambda: attention(Q, Q, Q, true(3, 4)),
        "mask: expected a shape that broadcasts to the scores' [2, 2, 3, 3], got [3, 4]; "
        "its last two dimensions are queries and keys; a mask per row is [batch, 1, 1, keys]",
    ),
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_a_message_of_each_kind(kind):
    call, message = GOLDEN[kind]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


def test_messages_have_one_shape():
    error = invalid("x", "a 1", 2, "add 1")
    assert type(error) is ValueError
    assert str(error) == "x: expected a 1, got 2; add 1"


def test_masks_cannot_be_swapped_by_position():
    with pytest.raises(TypeError, match="positional"):
        MODEL(SOURCE, TARGET, None)


# --- Nothing has changed when a call is refused ---------------------------------------------------


def lengths(state):
    return state.length, *(layer.past.length for layer in state.layers)


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("source_mask", {"source_mask": true(9)}),
        ("source_mask", {"source_mask": None}),
        ("target_mask", {"target_mask": true(9)}),
        ("target", {"target": TARGET + 30}),
        ("memory", {"memory": MEMORY[..., :3]}),
        ("state", {"target": TARGET[:1], "memory": MEMORY[:1], "source_mask": MASK[:1]}),
    ],
)
def test_a_refused_call_leaves_the_state_as_it_was(argument, options):
    state = MODEL.start()
    decode(state=state)
    with pytest.raises(ValueError, match=f"^{argument}: "):
        decode(state=state, **options)
    assert lengths(state) == (3, 3, 3)
    decode(TARGET[:, :1], state=state)
    assert lengths(state) == (4, 4, 4)


def test_learned_positions_refuse_before_the_state_is_extended():
    memory, state = LEARNED.encode(SOURCE), LEARNED.start()
    LEARNED.decode(TARGET, memory, source_mask=MASK, state=state)
    real = state.real
    with pytest.raises(ValueError, match=r"^positions: expected positions below max_len=4"):
        LEARNED.decode(TARGET[:, :2], memory, source_mask=MASK, state=state)
    assert lengths(state) == (3, 3, 3)
    assert state.real is real
    whole = LEARNED.decode(TARGET[:, [0, 1, 2, 0]], memory, source_mask=MASK)
    last = LEARNED.decode(TARGET[:, :1], memory, source_mask=MASK, state=state)
    torch.testing.assert_close(last, whole[:, 3:], atol=1e-12, rtol=0)


def test_a_refused_piece_leaves_the_cache_as_it_was():
    cache = KeyValueCache()
    keys, _ = cache.append(Q + 1, Q + 1)
    with pytest.raises(ValueError, match=r"^keys: "):
        cache.append(Q[:1], Q[:1])
    with pytest.raises(ValueError, match=r"^query: "):
        HEADS(X[0], cache=cache)
    assert cache.length == 3
    assert torch.equal(cache.read()[0], keys)


def test_a_refused_call_leaves_no_maps_behind():
    maps = []
    with pytest.raises(ValueError, match=r"^mask: "):
        HEADS(X, mask=true(3, 4), maps=maps)
    assert maps == []

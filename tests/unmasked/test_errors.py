"""Every refusal, message by message: the argument, what was expected, what came, what to do."""

import re

import numpy as np
import pytest
import torch

from helpers import VOCABULARY, ragged, small_config, small_model
from unmasked import MultiHeadAttention, Transformer, TransformerConfig, masks
from unmasked.attention import KeyValueCache, additive_attention, attention
from unmasked.config import LayerConfig
from unmasked.decoder import Decoder
from unmasked.fast.dropout import Dropout
from unmasked.feed_forward import FeedForward
from unmasked.loss import translation_loss
from unmasked.positions import LearnedPositions, SinusoidalPositions, shift_matrix
from unmasked.search import beam, greedy

MODEL = small_model()
LEARNED = small_model(positions="learned", max_len=4)
SOURCE, TARGET = ragged([4, 2]), ragged([3, 3])
MEMORY = MODEL.encode(SOURCE).detach()
HEADS = MultiHeadAttention(8, 2)
X = torch.zeros(2, 3, 8)
Q = torch.zeros(2, 2, 3, 4)


def config(**changes):
    return lambda: small_config(**changes)


def other_batch():
    state = MODEL.start()
    MODEL.decode(TARGET, MEMORY, source_mask=None, state=state)
    MODEL.decode(TARGET[:1], MEMORY[:1], source_mask=None, state=state)


def other_heads():
    cache = KeyValueCache()
    cache.append(Q, Q)
    cache.append(Q[:1], Q[:1])


def last_label(token):
    target = TARGET.clone()
    target[0, -1] = token
    return target


CASES = [
    # --- tokens
    (
        lambda: MODEL(SOURCE[0], TARGET),
        "source: expected rank 2, [batch, length], got shape [4]; "
        "a single sentence needs a batch dimension too: tokens.unsqueeze(0)",
    ),
    (
        lambda: MODEL.encode(SOURCE[0]),
        "source: expected rank 2, [batch, length], got shape [4]; "
        "a single sentence needs a batch dimension too: tokens.unsqueeze(0)",
    ),
    (
        lambda: MODEL.encode(SOURCE.float()),
        "source: expected integers (torch.int64 or torch.int32), got torch.float32; "
        "token numbers index a table: convert with .long()",
    ),
    (
        lambda: MODEL.encode([[3, 4]]),
        "source: expected a tensor of token numbers, got list; wrap it with torch.tensor(...)",
    ),
    (
        lambda: MODEL(SOURCE + 20, TARGET),
        f"source: expected tokens from 0 to 22, got token {int(SOURCE.max()) + 20}; "
        "enlarge the vocabulary in the configuration, or map unknown words to a known token",
    ),
    (
        lambda: MODEL(SOURCE, TARGET - 50),
        f"target: expected tokens from 0 to 22, got token {int(TARGET.min()) - 50}; "
        "enlarge the vocabulary in the configuration, or map unknown words to a known token",
    ),
    (
        lambda: MODEL(SOURCE[:0], TARGET[:0]),
        "source: expected at least one row and one token, got shape [0, 4]; "
        "drop empty batches and give empty sentences at least one token",
    ),
    (
        lambda: MODEL(SOURCE, TARGET[:, :0]),
        "target: expected at least one row and one token, got shape [2, 0]; "
        "drop empty batches and give empty sentences at least one token",
    ),
    (
        lambda: MODEL(SOURCE, TARGET[:1]),
        "target: expected a batch of 2, got 1; give each source sentence one target",
    ),
    (
        lambda: translation_loss(MODEL, SOURCE, TARGET[:, :1]),
        "target: expected at least two tokens a row, got shape [2, 1]; "
        "a target begins with BOS and ends with EOS",
    ),
    # --- vectors
    (
        lambda: HEADS(X[0]),
        "query: expected rank 3, [batch, length, 8], got shape [3, 8]; "
        "add the missing dimension with .unsqueeze, or pass tokens through the embedding",
    ),
    (
        lambda: HEADS(X[:, :, :5]),
        "query: expected vectors of width 8, got shape [2, 3, 5]; "
        "the module and its input must agree on the width",
    ),
    (
        lambda: HEADS(X, key=X[:, :, :5]),
        "key: expected vectors of width 8, got shape [2, 3, 5]; "
        "the module and its input must agree on the width",
    ),
    (
        lambda: HEADS(X, key=X, value=X[:, :, :5]),
        "value: expected vectors of width 8, got shape [2, 3, 5]; "
        "the module and its input must agree on the width",
    ),
    (
        lambda: FeedForward(8, 4)(X[:, :0]),
        "x: expected at least one row and one position, got shape [2, 0, 8]; "
        "drop empty batches and empty sequences",
    ),
    (
        lambda: Decoder(LayerConfig(d_model=8, n_heads=2), 1)(X, X[:1]),
        "memory: expected a batch of 2, got 1; both sides must hold the same sentences",
    ),
    (
        lambda: HEADS(X, key=X[:1]),
        "key: expected a batch of 2, got 1; both sides must hold the same sentences",
    ),
    (lambda: HEADS(None), "query: expected a Tensor, got NoneType; pass one"),
    (
        lambda: MODEL.decode(TARGET, MEMORY[0], source_mask=None),
        "memory: expected rank 3, [batch, length, 16], got shape [4, 16]; "
        "add the missing dimension with .unsqueeze, or pass tokens through the embedding",
    ),
    (
        lambda: MODEL(SOURCE, TARGET, source_mask=torch.ones(2, 5).bool()),
        "source_mask: expected a shape that broadcasts to the scores' [2, 4, 4, 4], got [2, 5]; "
        "its last two dimensions are queries and keys; a mask per row is [batch, 1, 1, keys]",
    ),
    (
        lambda: MODEL(SOURCE, TARGET, target_mask=torch.ones(3, 3)),
        "target_mask: expected a boolean tensor, got torch.float32; "
        "True means 'may attend': see masks.from_ones, from_blocked and from_additive",
    ),
    (
        lambda: MODEL.decode(TARGET, MEMORY, source_mask=torch.ones(2, 1, 1, 3).bool()),
        "source_mask: expected a shape that broadcasts to the scores' [2, 4, 3, 4], "
        "got [2, 1, 1, 3]; "
        "its last two dimensions are queries and keys; a mask per row is [batch, 1, 1, keys]",
    ),
    (
        lambda: other_batch(),
        "state: expected a batch of 1, got 2; begin with a new state for other sentences",
    ),
    (
        lambda: MODEL.decode(
            TARGET, MEMORY, source_mask=None, state=small_model(n_layers=3).start()
        ),
        "state: expected 2 layers, got 3; begin with this model's start()",
    ),
    (
        lambda: translation_loss(MODEL, SOURCE[:1], TARGET, packed=True),
        "target: expected a batch of 1, got 2; give each source sentence one target",
    ),
    (
        lambda: translation_loss(MODEL, SOURCE, TARGET * torch.tensor([1, 0, 0])),
        "target: expected at least one label, got padding only; "
        "a target needs a word or an EOS after its BOS",
    ),
    (
        lambda: translation_loss(MODEL, SOURCE, TARGET * torch.tensor([1, 0, 1]), packed=True),
        "target: expected its real labels first in every row, got padding before one; "
        "pad on the right, or use packed=False",
    ),
    (
        lambda: translation_loss(MODEL, 0 * SOURCE, TARGET, packed=True),
        "source: expected at least one real token, got padding only; leave the batch out",
    ),
    (
        lambda: translation_loss(MODEL, SOURCE, last_label(99), packed=True),
        "target: expected tokens from 0 to 22, got token 99; "
        "enlarge the vocabulary in the configuration, or map unknown words to a known token",
    ),
    (
        lambda: translation_loss(None, SOURCE, TARGET),
        "model: expected a Transformer, got NoneType; pass one",
    ),
    (
        lambda: translation_loss(MODEL, SOURCE, TARGET, smoothing="much"),
        "smoothing: expected a probability in [0, 1), got 'much'; "
        "1 would leave nothing, so stay below it",
    ),
    # --- attention
    (
        lambda: attention(Q[0, 0, 0], Q, Q),
        "query: expected rank 2 or more, [..., length, width], got [4]; add a dimension",
    ),
    (
        lambda: attention(Q, Q[..., :3], Q),
        "key: expected the query's width 4, got 3; their dot product needs one width",
    ),
    (
        lambda: attention(Q, Q, Q[:, :, :2]),
        "value: expected as many values as keys, 3, got 2; each key has one value",
    ),
    (
        lambda: additive_attention(Q, Q, Q, torch.zeros(5)),
        "vector: expected shape [4], got [5]; it weighs the columns of query + key",
    ),
    (
        lambda: KeyValueCache().read(),
        "cache: expected keys and values to read, got an empty cache; append keys and values first",
    ),
    (
        lambda: other_heads(),
        "keys: expected [batch, heads] = [2, 2] as in the cache, got [1, 2]; "
        "begin a new cache for other sentences",
    ),
    (
        lambda: attention(Q, Q, Q, dropout=1.5),
        "dropout: expected a probability in [0, 1), got 1.5; "
        "1 would leave nothing, so stay below it",
    ),
    (
        lambda: MultiHeadAttention(8, 2, key_width=0),
        "key_width: expected a whole number of at least 1, got 0; pass 1 or more",
    ),
    (
        lambda: KeyValueCache(0),
        "capacity: expected a whole number of at least 1, got 0; pass 1 or more",
    ),
    # --- masks
    (
        lambda: attention(Q, Q, Q, torch.ones(3, 3)),
        "mask: expected a boolean tensor, got torch.float32; "
        "True means 'may attend': see masks.from_ones, from_blocked and from_additive",
    ),
    (
        lambda: attention(Q, Q, Q, torch.ones(3, 4).bool()),
        "mask: expected a shape that broadcasts to the scores' [2, 2, 3, 3], got [3, 4]; "
        "its last two dimensions are queries and keys; a mask per row is [batch, 1, 1, keys]",
    ),
    (
        lambda: attention(Q, Q, Q, torch.ones(2, 3).bool(), need_weights=True),
        "mask: expected a shape that broadcasts to the scores' [2, 2, 3, 3], got [2, 3]; "
        "its last two dimensions are queries and keys; a mask per row is [batch, 1, 1, keys]",
    ),
    (
        lambda: attention(Q, Q, Q, torch.ones(1, 1, 1, 1, 1).bool()),
        "mask: expected a shape that broadcasts to the scores' [2, 2, 3, 3], "
        "got [1, 1, 1, 1, 1]; "
        "its last two dimensions are queries and keys; a mask per row is [batch, 1, 1, keys]",
    ),
    (
        lambda: masks.causal_mask(0),
        "n: expected a whole number of at least 1, got 0; pass 1 or more",
    ),
    (
        lambda: masks.causal_mask(3, past=-1),
        "past: expected a whole number of at least 0, got -1; pass 0 or more",
    ),
    (
        lambda: masks.length_mask(torch.zeros(1, 1, 1).long(), 3),
        "lengths: expected rank 1, [batch], or 2, [batch, queries], got [1, 1, 1]; "
        "give one length a row, or one a query",
    ),
    (
        lambda: masks.length_mask(torch.tensor([2.0]), 3),
        "lengths: expected whole numbers, got torch.float32; "
        "lengths count tokens: convert with .long()",
    ),
    (
        lambda: masks.length_mask(torch.tensor([1, 5]), 3),
        "lengths: expected lengths from 0 to 3, got 1 to 5; n is the length with padding",
    ),
    (
        lambda: masks.from_blocked(torch.tensor([1, 0])),
        "blocked: expected a boolean tensor, got torch.int64; convert it: blocked != 0",
    ),
    (
        lambda: masks.from_additive(torch.tensor([1, 0])),
        "additive: expected a floating-point tensor, got torch.int64; "
        "an additive mask holds 0 and minus infinity; for ones and zeros use from_ones",
    ),
    (
        lambda: masks.to_additive(torch.tensor([1.0])),
        "mask: expected a boolean tensor, got torch.float32; "
        "True means 'may attend': see masks.from_ones, from_blocked and from_additive",
    ),
    (lambda: masks.from_ones([1, 0]), "ones: expected a Tensor, got list; pass one"),
    # --- positions
    (
        lambda: shift_matrix(5, 1),
        "d_model: expected an even width, got 5; "
        "the last sine of an odd width has no cosine to be turned with",
    ),
    (
        lambda: LEARNED(SOURCE, ragged([6, 2])),
        "positions: expected positions below max_len=4, got position 5; "
        "raise max_len and train again, or use positions='sinusoidal'",
    ),
    (
        lambda: SinusoidalPositions(4, max_len=0),
        "max_len: expected a whole number of at least 1, got 0; pass 1 or more",
    ),
    (
        lambda: LearnedPositions(0),
        "d_model: expected a whole number of at least 1, got 0; pass 1 or more",
    ),
    # --- configuration
    (
        config(n_heads=3),
        "n_heads: expected a divisor of d_model=16, got 3; "
        "every head takes an equal share of the width",
    ),
    (
        lambda: MultiHeadAttention(10, 4),
        "n_heads: expected a divisor of d_model=10, got 4; "
        "every head takes an equal share of the width",
    ),
    (config(norm="middle"), "norm: expected 'post' or 'pre', got 'middle'; choose one of these"),
    (
        config(feed_forward="rnn"),
        "feed_forward: expected 'linear' or 'conv', got 'rnn'; choose one of these",
    ),
    (
        config(activation="tanh"),
        "activation: expected 'relu' or 'gelu', got 'tanh'; choose one of these",
    ),
    (
        config(positions="none"),
        "positions: expected 'sinusoidal' or 'learned', got 'none'; choose one of these",
    ),
    (
        config(tie_embeddings="all"),
        "tie_embeddings: expected False or True or 'output', got 'all'; choose one of these",
    ),
    (
        config(tie_embeddings=True, source_vocab=9),
        f"tie_embeddings: expected two vocabularies of one size, got 9 and {VOCABULARY}; "
        "share one vocabulary, or tie_embeddings='output' to tie target and output only",
    ),
    (
        config(dropout=1.0),
        "dropout: expected a probability in [0, 1), got 1.0; "
        "1 would leave nothing, so stay below it",
    ),
    (
        config(inner_dropout=-0.1),
        "inner_dropout: expected a probability in [0, 1), got -0.1; "
        "1 would leave nothing, so stay below it",
    ),
    (
        lambda: Dropout(2.0),
        "dropout: expected a probability in [0, 1), got 2.0; "
        "1 would leave nothing, so stay below it",
    ),
    (
        config(norm_eps=-1.0),
        "norm_eps: expected a number from 1e-30 to 1, got -1.0; PyTorch's own is 1e-5",
    ),
    (
        config(embedding_std=-1.0),
        "embedding_std: expected 0 or more, got -1.0; None stands for Glorot's bound",
    ),
    (config(bias="no"), "bias: expected True or False, got 'no'; choose one of these"),
    (
        config(tie_embeddings=1),
        "tie_embeddings: expected False or True or 'output', got 1; choose one of these",
    ),
    (
        config(dropout=None),
        "dropout: expected a probability in [0, 1), got None; "
        "1 would leave nothing, so stay below it",
    ),
    (
        lambda: Transformer(LayerConfig()),
        "config: expected a TransformerConfig, got LayerConfig; pass one",
    ),
    (
        lambda: Decoder(None, 1),
        "config: expected a LayerConfig, got NoneType; pass one",
    ),
    (
        config(n_layers=0),
        "n_layers: expected a whole number of at least 1, got 0; pass 1 or more",
    ),
    (
        config(n_decoder_layers=1.5),
        "n_decoder_layers: expected a whole number of at least 1, got 1.5; pass 1 or more",
    ),
    (
        config(source_vocab=True),
        "source_vocab: expected a whole number of at least 1, got True; pass 1 or more",
    ),
    # --- search
    (
        lambda: greedy(MODEL, SOURCE[0]),
        "source: expected rank 2, [batch, length], got shape [4]; "
        "a single sentence needs a batch dimension too: tokens.unsqueeze(0)",
    ),
    (
        lambda: greedy(MODEL, SOURCE, 0),
        "max_new_tokens: expected a whole number of at least 1, got 0; pass 1 or more",
    ),
    (
        lambda: greedy(MODEL, SOURCE, bos=0),
        "bos: expected a token of the target vocabulary, 1 to 22, got 0; "
        "0 is padding and hidden from attention",
    ),
    (
        lambda: greedy(MODEL, SOURCE, eos=23),
        "eos: expected a token of the target vocabulary, 1 to 22, got 23; "
        "0 is padding and hidden from attention",
    ),
    (
        lambda: beam(MODEL, SOURCE, 24),
        "beam_size: expected at most the target vocabulary's 23, got 24; use a smaller beam",
    ),
    (
        lambda: beam(MODEL, SOURCE, 0),
        "beam_size: expected a whole number of at least 1, got 0; pass 1 or more",
    ),
    (
        lambda: beam(MODEL, SOURCE, 2, n_best=3),
        "n_best: expected at most beam_size=2, got 3; a wider beam finds more hypotheses",
    ),
    (
        lambda: beam(MODEL, SOURCE, 2, length_penalty=-1.0),
        "length_penalty: expected a number from 0 to 10, got -1.0; "
        "0 compares plain log-probabilities, more favours longer sentences",
    ),
    (
        lambda: beam(MODEL, SOURCE, 2, length_penalty=float("nan")),
        "length_penalty: expected a number from 0 to 10, got nan; "
        "0 compares plain log-probabilities, more favours longer sentences",
    ),
    (
        lambda: greedy(MODEL.config, SOURCE),
        "model: expected a Transformer, got TransformerConfig; pass one",
    ),
    (
        lambda: greedy(MODEL, SOURCE, eos=1.5),
        "eos: expected a whole number of at least 0, got 1.5; pass 0 or more",
    ),
    (
        lambda: greedy(LEARNED, SOURCE, 5),
        "max_new_tokens: expected at most max_len=4, got 5; "
        "there are no learned positions beyond it",
    ),
]


@pytest.mark.parametrize(("call", "message"), CASES, ids=[message[:48] for _, message in CASES])
def test_the_message(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


def test_an_unknown_preset_lists_the_known_ones():
    with pytest.raises(
        ValueError, match=r"^name: expected 'base' or 'big' or .*, got 'huge'; choose"
    ):
        TransformerConfig.preset("huge", source_vocab=5, target_vocab=5)


def test_a_configuration_cannot_be_changed_in_place():
    with pytest.raises(AttributeError):
        small_config().d_model = 3


def test_nothing_is_positional_that_could_be_swapped():
    with pytest.raises(TypeError):
        TransformerConfig(10, 10)
    with pytest.raises(TypeError):
        Transformer(small_config())(SOURCE, TARGET, None)


def test_a_refused_mask_leaves_the_state_as_it_was():
    state = MODEL.start()
    with pytest.raises(ValueError, match="source_mask"):
        MODEL.decode(TARGET, MEMORY, source_mask=torch.ones(9).bool(), state=state)
    assert state.length == 0
    MODEL.decode(TARGET, MEMORY, source_mask=None, state=state)
    assert state.length == 3


def test_whole_numbers_of_numpy_are_whole_numbers():
    assert small_config(d_model=np.int64(16)).d_model == 16

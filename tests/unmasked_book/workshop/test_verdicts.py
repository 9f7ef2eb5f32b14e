"""Tests that the workshop accepts what is right, and names each known mistake."""

# ruff: noqa: E501 (tables)

import os
import re

import pytest
import torch

from unmasked import plain
from unmasked_book.workshop import examine, judging, wording
from unmasked_book.workshop.cases import probes
from unmasked_book.workshop.mistakes import known
from unmasked_book.workshop.reference import STEPS, piece

OTHER_WAYS = {  # of computing the same
    "padding_mask": (("(tokens != 0)", "tokens.ne(0)"), ("[:, None, None, :]", ".view(len(tokens), 1, 1, -1)")),
    "causal_mask": (("torch.ones(n, n, dtype=torch.bool).tril()", "torch.arange(n)[:, None] >= torch.arange(n)"),),
    "positions": ((", dtype=torch.float64", ""), ("10000.0 **", "torch.exp(math.log(10000.0) *"), ("d_model)\n", "d_model))\n")),
    "attention": (("-torch.inf", "-1e9"), ("weights @ v", 'torch.einsum("bhqk,bhke->bhqe", weights, v)')),
    "MultiHeadAttention": (("attention(q, k, v, mask)", "nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)"),),
    "FeedForward": ((".relu()", ".clamp(min=0)"),),
    "EncoderLayer": (("x = x + self.dropout(self.self_attention(y, y, mask))", "x = self.dropout(self.self_attention(query, y, mask)) + x"), ("y = self.attention_norm(x)", "query, y = self.attention_norm(x), self.attention_norm(x)")),
    "DecoderLayer": (("return x + self.dropout(", "return torch.add(x, self.dropout("), ("self.feed_forward_norm(x)))", "self.feed_forward_norm(x))))")),
    "Transformer": (("so_far & padding_mask(target)", "padding_mask(target) * so_far"), (" * math.sqrt(embedding.embedding_dim)", " * embedding.embedding_dim**0.5")),
    "generate": ((" and not ended.all()", ""), ("logits[:, 1:].argmax(-1, keepdim=True) + 1", "logits.index_fill(1, torch.tensor([0]), -1e9).argmax(-1, keepdim=True)")),
    "loss": (("F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)", "F.cross_entropy(logits.mT, target[:, 1:], ignore_index=0)"),),
}  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
def test_ours_and_other_ways_of_computing_the_same_are_right(step):
    for answer in (getattr(plain, step), piece(step, OTHER_WAYS[step])):
        assert examine(step, answer) == (step, True, f"✓ {step}", (), False)


def test_a_formula_that_underflows_is_right_with_a_remark():
    weights = (".masked_fill(~mask, -torch.inf).softmax(-1)", ".softmax(-1) * mask")
    divided = ("return weights", "return weights / weights.sum(-1, keepdim=True)")
    verdict = examine("attention", piece("attention", (weights, divided)))
    assert verdict.right
    assert "0 / 0" in verdict.message


@pytest.mark.parametrize("step", STEPS)
def test_each_known_mistake_is_wrong_and_named_as_itself_alone(step):
    for mistake in known(step):
        outcomes = [judging.computed(step, mistake.changes, case) for case in probes(step)]
        assert judging.recognised(step, outcomes) == [(mistake,)]
        assert judging.failing(step, zip(probes(step), outcomes, strict=True)), mistake.words
    verdict = examine(step, piece(step, mistake.changes))
    assert verdict.mistakes == (mistake.words,), verdict.message


@pytest.mark.parametrize(
    ("step", "first", "second"),
    [
        ("attention", "scores not divided by √d_k", "a mask upside down"),
        ("MultiHeadAttention", "values made of x, not of y", "no output matrix"),
        ("loss", "labels that are not shifted: the model is asked for what it has read", "padding counted like words"),
    ],
)  # fmt: skip
def test_two_mistakes_at_once_are_both_named(step, first, second, monkeypatch):
    monkeypatch.setattr(judging, "PAIRS", 60.0)
    table = {mistake.words: mistake.changes for mistake in known(step)}
    assert {*examine(step, piece(step, table[first] + table[second])).mistakes} == {first, second}


def attention(change):
    return lambda q, k, v, mask: change(plain.attention(q, k, v, mask), q, k)


SAID = [
    ("causal_mask", lambda n: print(n), "returns nothing.*\n  It printed, first:\n    5"),
    ("attention", lambda q, k, v, mask: [q @ k.mT], "returns a list, and a tensor"),
    ("positions", torch.zeros(3, 4), r"this is a Tensor. .*positions = positions\(...\)"),
    ("FeedForward", plain.FeedForward(2, 3), "the class itself"),
    ("FeedForward", plain.positions, "a class of nn.Module is asked for, and this is a function"),
    ("FeedForward", piece("FeedForward", (("self.expand =", "self.inner ="), ("self.expand(", "self.inner("))), "no parameter expand.weight"),
    ("Transformer", piece("Transformer", (("(EncoderLayer(*sizes) for _ in range(n_layers))", "([EncoderLayer(*sizes)] * n_layers)"),)), "are one tensor.*repeats one layer"),
    ("causal_mask", lambda n: torch.ones(n, n).foo(), r"AttributeError.*in line \d+ of test_verdicts.py: `.*foo"),
    ("causal_mask", lambda n: all(x < n for x in iter(int, n)), r"stopped after 1 seconds, in line \d+ of test_verdicts.py: `.*iter"),
    ("causal_mask", lambda n: os.read(os.pipe()[0], n), r"stopped after 1 seconds, in line \d+ of test_verdicts.py: `.*os.read"),
    ("padding_mask", lambda tokens: (plain.padding_mask(tokens), tokens.zero_())[0], "numbers are right, but it writes into tokens"),
    ("attention", attention(lambda x, q, k: x.detach()), "numbers are right, but no gradient comes back"),
    ("attention", attention(lambda x, q, k: x + torch.rand(())), "two calls .* different numbers"),
    ("attention", attention(lambda x, q, k: x * torch.nan), r"(?s)none of the .*NaN comes from"),
    ("Transformer", piece("Transformer", (("so_far = padding_mask(source), causal", "so_far = padding_mask(source), self.__dict__.setdefault('kept', causal"), (".to(target.device)", ")"))), "several batches goes wrong at N = 1.*keep a mask"),
    ("Transformer", piece("Transformer", (("(self.source_embedding, self.target_embedding)", "[self.source_embedding]"),)), "target_embedding begins with a standard deviation of 1.0"),
    ("EncoderLayer", piece("EncoderLayer", (("nn.Dropout(dropout)", "nn.Dropout(dropout**2)"),)), "with a probability of 0.09, where"),
    ("generate", piece("generate", (("    target = torch.ones", "    model.train()\n    target = torch.ones"),)), r"numbers are right, but it calls the model's train\(\)"),
    ("attention", attention(lambda x, q, k: x[:1]), r"shape \[1, .*\], not \[2, "),
    ("attention", attention(lambda x, q, k: x + (k.shape[-2] > 1)), "(?s)none of the .*Smallest case: B = 1, H = 1, T = 1, S = 2, d_k = 1, E = 1"),
    ("EncoderLayer", piece("EncoderLayer", (("(y, y, mask)", "(y.tanh(), y, mask)"),)), "self_attention is the first part .* its input 1"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "answer", "words"), SAID)
def test_what_else_may_be_wrong_is_said(step, answer, words, monkeypatch):
    if words.startswith("stopped"):
        monkeypatch.setattr(wording, "SECONDS", 1.0)
    verdict = examine(step, answer)
    assert not verdict.right
    assert not verdict.mistakes
    assert re.search(words, verdict.message), verdict.message

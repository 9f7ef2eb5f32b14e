"""What readers may write for the projects: right, wrong, and hardly begun."""

import inspect
import math
import types
from collections import Counter
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from unmasked import plain
from unmasked.loss import teacher_forcing
from unmasked.masks import causal_mask, padding_mask
from unmasked.positions import frequencies
from unmasked.search import beam
from unmasked_book.exercises.translating import once


def plain_with(*changes):
    """plain.py with some of its text replaced, as a module."""
    source = inspect.getsource(plain)
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    module = types.ModuleType("of_a_reader")
    exec(source, vars(module))
    return module


# --- masks ------------------------------------------------------------------------------------


def numbered(tokens):
    """Of which sentence each position is: the <eos> ends its own, padding is of none."""
    ends = (tokens == 2).long()
    return (ends.cumsum(-1) - ends).masked_fill(tokens == 0, -1)


def same(sentence):
    return sentence[:, None, :, None] == sentence[:, None, None, :]


def packed_mask(tokens):
    mask = torch.zeros(len(tokens), 1, *tokens.shape[1:] * 2, dtype=torch.bool)
    for row, sentence in enumerate(tokens.tolist()):
        start = 0
        for query, token in enumerate(sentence):
            if token:
                mask[row, 0, query, start : query + 1] = True
            if token == 2:
                start = query + 1
    return mask


def causal(tokens):
    return causal_mask(tokens.shape[1])


MASKS = [
    (lambda t: same(numbered(t)) & padding_mask(t), "position 0 sees position 1, which is later"),
    (lambda t: padding_mask(t) & causal(t), "position 4 sees position 0, .* another sentence"),
    (
        lambda t: same((t == 2).cumsum(-1)) & causal(t) & padding_mask(t),
        "the <eos> at 3 goes with what comes after it",
    ),
    (lambda t: same(numbered(t)) & causal(t), "position 7 sees position 7, which is padding"),
    (lambda t: packed_mask(t).tril(-1), "position 0 does not see position 0, which is not later"),
    (lambda t: packed_mask(t)[:, 0], r"has shape \[2, 9, 9\], not \[2, 1, 9, 9\]"),
    (lambda t: packed_mask(t).long(), "has the type torch.int64, not torch.bool"),
    (
        lambda t: packed_mask(t) if len(t) > 1 else packed_mask(t).tril(-1),
        r"in the row \[5, 6, 2\], position 0 does not see",
    ),
]

# --- positions --------------------------------------------------------------------------------


def rotate(x, start=0, *, power=1, sign=1, halves=False):
    places = torch.arange(start, start + x.shape[-2])[:, None] ** power
    angle = sign * places * frequencies(x.shape[-1])
    a, b = x.chunk(2, dim=-1) if halves else (x[..., 0::2], x[..., 1::2])
    turned = [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()]
    return torch.cat(turned, -1) if halves else torch.stack(turned, -1).flatten(-2)


def rotate_flat(x, start=0):
    """For [T, K] only."""
    return rotate(x, start) if x.dim() == 2 else rotate(x.flatten(0, -2), start).view(x.shape)


POSITIONS = [
    (lambda x, start=0: rotate(x, start + 1), "the row at position 0, .* holds"),
    (lambda x, start=0: rotate(x) * (1 + torch.arange(len(x)))[:, None], "norm.* at \\[1\\]"),
    (lambda x, start=0: rotate(x, start, power=2), "dot product .* both one position later"),
    (lambda x, start=0: rotate(x, start, sign=-1), "it turns the other way"),
    (lambda x, start=0: rotate(x, start, halves=True), r"it pairs columns i and i \+ K/2"),
    (lambda x, start=0: rotate(x.flip(-1)).flip(-1), r"rotate\(x\) holds"),
    (lambda x, start=0: rotate(x), r"rotate\(x, 3\) .* holds"),
    (rotate_flat, r"shape \[2, 3, 4, 8\] holds"),
    (lambda x, start=0: rotate(x)[..., 0], "has shape"),
]

# --- attention --------------------------------------------------------------------------------


def attention_with(*changes):
    return plain_with(*changes).MultiHeadAttention


ROOT = "math.sqrt(q.shape[-1])"
MERGE = ("(weights @ v).transpose(1, 2).flatten(2)", "(weights @ v).reshape(x.shape)")
SPLIT = (
    "x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)",
    "x.reshape(len(x), self.n_heads, x.shape[1], -1)",
)
SOFTMAX = "softmax(-1)"


class OneByOne(nn.Module):
    """Right by other means: head by head, with a buffer, and layers in another order."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.width = d_model // n_heads
        for name in ("output", "value", "key", "query"):
            setattr(self, name, nn.Linear(d_model, d_model))
        self.register_buffer("scale", torch.tensor(1 / math.sqrt(self.width)))

    def forward(self, x, y, mask):
        bias = torch.zeros(mask.shape).masked_fill(~mask, -1e9)
        bias = bias[:, 0] if mask.dim() == 4 else bias
        parts = zip(*(z.split(self.width, -1) for z in self.all(x, y)), strict=True)
        return self.output(
            torch.cat([(q @ k.mT * self.scale + bias).softmax(-1) @ v for q, k, v in parts], -1)
        )

    def all(self, x, y):
        return self.query(x), self.key(y), self.value(y)


class ForSquares(plain.MultiHeadAttention):
    def forward(self, x, y, mask):
        return super().forward(x, y, mask) if x.shape == y.shape else x


class WithoutModule:
    def __init__(self, d_model, n_heads): ...
    def forward(self, x, y, mask): ...


class WithoutSuper(nn.Module):
    def __init__(self, *sizes):
        self.query = nn.Linear(sizes[0], sizes[0])

    def forward(self, *inputs):
        return inputs[0]


ATTENTION = [
    (attention_with((f" / {ROOT}", "")), "the scores are not divided by √K"),
    (attention_with((ROOT, "math.sqrt(x.shape[-1])")), "divided by √D"),
    (attention_with((ROOT, "q.shape[-1]")), "divided by K and not by √K"),
    (attention_with((SOFTMAX, "softmax(-2)")), "the softmax is over the queries"),
    (attention_with((SOFTMAX, "softmax(1)")), "the softmax is over the heads"),
    (attention_with(("~mask", "mask")), "the mask is upside down"),
    (attention_with((".masked_fill(~mask, -torch.inf)", "")), "the mask is ignored"),
    (attention_with(("self.value(y)", "self.value(x)")), "values are made of x and not of y"),
    (attention_with(MERGE), "heads are merged without the transpose"),
    (attention_with(SPLIT), "D is split without the transpose"),
    (attention_with(MERGE, SPLIT), "D is split and heads are merged without the transposes"),
    (attention_with(("self.key(y)", "self.key(x)")), "some are hidden holds"),
    (attention_with(("self.output(heads)", "weights")), "some are hidden has shape"),
    (attention_with(("self.value", "self.values")), "has no parameter value.weight"),
    (
        attention_with(("self.query = ", "self.more = nn.Linear(1, 1)\n        self.query = ")),
        "has a parameter more.bias, which is not asked for",
    ),
    (
        attention_with(
            ("self.key = nn.Linear(d_model, d_model)", "self.key = nn.Linear(d_model, 4)")
        ),
        r"key.weight of MultiHeadAttention\(8, 2\) has shape \[4, 8\], not \[8, 8\]",
    ),
    (ForSquares, "cross-attention of 5 positions to 7 with padding holds|has shape"),
    (plain.MultiHeadAttention(8, 2), "the class itself is asked for"),
    (lambda d_model, n_heads: 7, "should be an nn.Module and is a int"),
    (WithoutModule, "should be an nn.Module and is a "),
    (WithoutSuper, "stops with AttributeError: cannot assign module before Module.__init__"),
]


class Named(nn.Module): ...


class OnlyInit(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.n_heads = sizes[1]


class OnlyForward(nn.Module):
    def forward(self, *inputs):
        return inputs[0]


class Empty(nn.Module):
    def __init__(self, d_model, n_heads): ...
    def forward(self, x, y, mask): ...


class Layers(plain.MultiHeadAttention):
    def forward(self, x, y, mask): ...


class NoLayers(OnlyInit):
    def forward(self, *inputs):
        return inputs[0]


BEGUN = [Named, OnlyInit, OnlyForward, Empty, Layers, NoLayers]

# --- feed_forward -----------------------------------------------------------------------------


def memory(keys, values, sharp=20.0, threshold=0.95):
    bias = torch.full((len(keys),), -sharp * threshold)
    return sharp * keys.T, bias, values, torch.zeros(values.shape[1])


FEED_FORWARD = [
    (lambda k, v: memory(k, v, 1.0, 0.0), "the layer for the keys holds"),
    (lambda k, v: memory(k, v, 2.0, 0.5), "largest cosine with a key is 0.[5-8]"),
    (
        lambda k, v: memory(k, v, 5.0, 0.8),
        r"the layer for the keys|for an x whose largest cosine with a key is 0\.8\d+, the layer",
    ),
    (
        lambda k, v: (*memory(k, v - 1)[:3], torch.ones(v.shape[1])),
        "for an x whose largest cosine with a key is .*, the layer holds 1.0, not 0.0",
    ),
    (lambda k, v: (k, *memory(k, v)[1:]), r"w1 has shape \[3, 8\], not \[8, 3\]"),
    (lambda k, v: (k.T, -0.9, v, 0.0), "b1 should be a tensor and is a float"),
    (lambda k, v: (k.T, v), "it stops with ValueError: not enough values to unpack"),
]

# --- encoder ----------------------------------------------------------------------------------


def contributions(model, source):
    """By hooks: each norm's input, less the one before it."""
    norms = [
        residual.norm
        for layer in model.encoder.layers
        for residual in (layer.attention_residual, layer.feed_forward_residual)
    ]
    stream = []
    hooks = [
        norm.register_forward_hook(lambda module, inputs, output: stream.append(inputs[0]))
        for norm in [*norms, model.encoder.norm]
    ]
    model.encode(source)
    for hook in hooks:
        hook.remove()
    return [stream[0], *(b - a for a, b in pairwise(stream))]


def unmasked_contributions(model, source):
    x = model.source_embedding(source)
    parts = [x]
    for layer in model.encoder.layers:
        parts.append(layer.self_attention(layer.attention_residual.norm(x)))
        x = x + parts[-1]
        parts.append(layer.feed_forward(layer.feed_forward_residual.norm(x)))
        x = x + parts[-1]
    return parts


def unnormed_contributions(model, source):
    x = model.source_embedding(source)
    parts = [x]
    for layer in model.encoder.layers:
        parts.append(layer.self_attention(x, mask=padding_mask(source)))
        x = x + parts[-1]
        parts.append(layer.feed_forward(x))
        x = x + parts[-1]
    return parts


def changed(change):
    return lambda model, source: change(contributions(model, source))


ENCODER = [
    (changed(lambda parts: parts[1:]), "has 2 parts, and should have 3: the embedding"),
    (changed(lambda parts: parts[0]), "has 2 parts, and should have 3|part 0"),
    (changed(lambda parts: dict(enumerate(parts))), "a list of tensors is .* this is a dict"),
    (changed(lambda parts: [x[0] for x in parts]), "part 0, the embedding, has shape"),
    (changed(lambda parts: [0, *parts[1:]]), "part 0, .* should be a tensor and is a int"),
    (changed(lambda parts: [0 * x for x in parts]), "the sum of the parts, .* holds"),
    (
        changed(lambda parts: [parts[0], *parts[:0:-1]]),
        "part 1, what layer 1's attention adds, holds",
    ),
    (changed(lambda parts: list(torch.stack(parts).cumsum(0))), "stream after each sublayer"),
    (unmasked_contributions, "this is what sublayers add that see the source's padding"),
    (unnormed_contributions, "this is what sublayers add that read the stream itself"),
]

# --- decoder ----------------------------------------------------------------------------------


def encoded(model, source, mask):
    memory = model.embed(model.source_embedding, source)
    for layer in model.encoder:
        memory = layer(memory, mask)
    return model.encoder_norm(memory)


def generate(
    model, source, n, *, moves=True, hidden=True, lowest=1, again=False, stop=False, whole=True,
    kept="keys",
):  # fmt: skip
    """With a cache; and what it is with a mistake, by name."""
    real = padding_mask(source) if hidden else torch.tensor(True)
    memory = encoded(model, source, real)
    across = [layer.cross_attention for layer in model.decoder]
    made = [(a.split(a.key(memory)), a.split(a.value(memory))) for a in across]
    past = [[] for _ in across]
    target = torch.ones(len(source), 1, dtype=torch.long)
    ended = torch.zeros_like(target, dtype=torch.bool)
    for _ in range(n):
        tokens = target if moves else target[:, -1:]
        x = model.embed(model.target_embedding, tokens)[:, -1:]
        for layer, seen, (k, v) in zip(model.decoder, past, made, strict=True):
            a, own, y = layer.cross_attention, layer.self_attention, layer.self_norm(x)
            if kept == "vectors":  # keys and values are made again
                seen.append(y)
                x = x + own(y, torch.cat(seen, 1), torch.tensor(True))
            else:
                seen.append((own.split(own.key(y)), own.split(own.value(y))))
                keys, values = (torch.cat(each, dim=2) for each in zip(*seen, strict=True))
                weights = own.split(own.query(y)) @ keys.mT / math.sqrt(keys.shape[-1])
                heads = weights.softmax(-1) @ values
                x = x + own.output(heads.transpose(1, 2).flatten(2))
            y = layer.cross_norm(x)
            if again:
                x = x + a(y, memory, real)
            else:
                weights = a.split(a.query(y)) @ k.mT / math.sqrt(k.shape[-1])
                heads = weights.masked_fill(~real, -math.inf).softmax(-1) @ v
                x = x + a.output(heads.transpose(1, 2).flatten(2))
            y, f = layer.feed_forward_norm(x), layer.feed_forward
            x = x + (f(y) if whole else f.contract(f.expand(y).relu()))
        token = model.generator(model.decoder_norm(x))[..., lowest:].argmax(-1) + lowest
        target = torch.cat([target, token.masked_fill(ended, 0)], dim=1)
        ended = ended | (token == 2) if stop else ended
    return target[:, 1:]


def uncached(model, source, n):
    """As plain.py does it, but for the end."""
    target = torch.ones(len(source), 1, dtype=torch.long)
    for _ in range(n):
        token = model(source, target)[:, -1:, 1:].argmax(-1) + 1
        target = torch.cat([target, token], dim=1)
    return target[:, 1:]


def decoded_again(model, source, n):
    """The encoder runs once; the decoder reads everything at each step."""
    real = padding_mask(source)
    memory = encoded(model, source, real)
    target = torch.ones(len(source), 1, dtype=torch.long)
    for _ in range(n):
        x = model.embed(model.target_embedding, target)
        for layer in model.decoder:
            x = layer(x, memory, causal_mask(target.shape[1]), real)
        token = model.generator(model.decoder_norm(x[:, -1:]))[..., 1:].argmax(-1) + 1
        target = torch.cat([target, token], dim=1)
    return target[:, 1:]


def encoded_twice(model, source, n):
    encoded(model, source, padding_mask(source))
    return generate(model, source, n)


def with_option(**option):
    return lambda model, source, n: generate(model, source, n, **option)


DECODER = [
    (uncached, "right tokens, but the feed-forward of layer 1 saw 15 positions where 5 are enough"),
    (decoded_again, "the feed-forward of layer 1 saw 15 positions where 5 are enough"),
    (with_option(kept="vectors"), "self_attention.key of layer 1 saw 15 positions where 5 are"),
    (with_option(again=True), "cross_attention.key of layer 1 saw 30 positions where 5 are enough"),
    (encoded_twice, "the feed-forward of the encoder's layer 1 saw 10 positions where 5 are en"),
    (with_option(whole=False), "feed-forward of layer 1 saw 0 positions where 5 are needed"),
    (with_option(lowest=0), r"it writes padding \(0\)"),
    (with_option(stop=True), r"it writes padding \(0\)"),
    (with_option(moves=False), "it embeds each new token at position 0"),
    (with_option(hidden=False), "it sees the source's padding"),
    (lambda model, source, n: torch.ones(2, n).long(), r"generate\(model, source, 5\) holds 1"),
    (lambda model, source, n: generate(model, source, n - 1), r"has shape \[2, 4\], not \[2, 5\]"),
]

# --- transformer ------------------------------------------------------------------------------

TEMPLATE = """
def positions(length, d_model): ...  # [length, D]
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads): ...
    def forward(self, x, y, mask): ...
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff): ...
    def forward(self, x): ...
class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout): ...
    def forward(self, x, mask): ...
class DecoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout): ...
    def forward(self, x, memory, mask, memory_mask): ...
class Transformer(nn.Module):
    def __init__(
        self, source_vocab, target_vocab, d_model=512, n_heads=8, n_layers=6, d_ff=2048, dropout=0.1
    ): ...
    def forward(self, source, target): ...
    def generate(self, source, max_new_tokens): ...
"""


def template():
    pieces = {"nn": nn}
    exec(TEMPLATE, pieces)
    return pieces


NAMES = [
    "positions",
    "MultiHeadAttention",
    "FeedForward",
    "EncoderLayer",
    "DecoderLayer",
    "Transformer",
]
DROPOUT = "self.dropout = nn.Dropout(dropout)"
POST = "x = x + self.dropout(self.self_attention(y, y, mask))"
TRANSFORMER = [
    (plain_with(("angles.sin(), angles.cos()", "angles.cos(), angles.sin()")), "positions: not"),
    (plain_with(("~mask", "mask")), "MultiHeadAttention: not yet: the mask is upside down"),
    (plain_with((".relu()", "")), r"FeedForward: not yet: the output of FeedForward\(8, 16\) hol"),
    (
        plain_with(("self.expand(x).relu()", "self.expand(x).foo()")),
        "FeedForward: not yet: it stops with AttributeError",
    ),
    (
        plain_with(("y = self.attention_norm(x)", "y = x")),
        r"EncoderLayer: not yet: the output of EncoderLayer\(8, 2, 16, 0.1\) holds",
    ),
    (
        plain_with(("self.expand", "self.inner")),
        r"FeedForward: not yet: FeedForward\(8, 16\) has no parameter expand.weight",
    ),
    (
        plain_with(("return self.generator(", "return self.generator(source, ")),
        "Transformer: not yet: it stops with TypeError",
    ),
    (
        plain_with(("self.decoder_norm(x))", "self.decoder_norm(x[:, -1:]))")),
        "Transformer: not yet: the tensor of logits, .* has shape",
    ),
    (plain_with(("self.cross_norm(x), memory", "x, memory")), "DecoderLayer: not yet: the output"),
    (plain_with(("self.encoder_norm", "self.norm")), "Transformer: .* no parameter encoder_norm"),
    (
        plain_with((" * math.sqrt(embedding.embedding_dim)", "")),
        "Transformer: not yet: the tensor of logits, with the weights of de-en, holds",
    ),
    (
        plain_with(("token.masked_fill(ended, 0)", "token")),
        r"Transformer: not yet: generate\(source, 30\) holds",
    ),
    (plain_with(("def generate", "def write")), "Transformer: not yet: .* no attribute 'generate'"),
    (plain_with((DROPOUT, "self.dropout = nn.Identity()")), "in training, two calls give the same"),
    (
        plain_with(
            ("memory = self.encoder_norm(memory)", "memory = self.encoder_norm(memory).data")
        ),
        "Transformer: not yet: unmasked.check finds a fault: .*encoder",
    ),
]

# --- training ---------------------------------------------------------------------------------


class Adam:
    """Of a reader; what is wrong with it is chosen by name."""

    def __init__(self, parameters, rate, betas=(0.9, 0.98), eps=1e-9, wrong=""):
        self.parameters, self.wrong = list(parameters), wrong
        self.rate, self.betas, self.eps, self.steps = rate, betas, eps, 0
        self.m = [torch.zeros_like(p) for p in self.parameters]
        self.v = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self):
        b1, b2 = self.betas
        self.steps += self.wrong != "no count" or self.steps == 0
        corrected = self.wrong != "no correction"
        for p, m, v in zip(self.parameters, self.m, self.v, strict=True):
            if p.grad is None and self.wrong != "no gradient":
                continue
            m.mul_(b1).add_((1 - b1) * p.grad)
            v.mul_(b2).add_((1 - b2) * p.grad**2)
            mean = m / (1 - b1**self.steps) if corrected else m
            square = v / (1 - b2**self.steps) if corrected else v
            inside = self.wrong == "inside"
            root = (square + self.eps).sqrt() if inside else square.sqrt() + self.eps
            change = self.rate * mean / root
            p.add_(change if self.wrong == "upwards" else -change)


def adam(wrong):
    return lambda *given: Adam(*given, wrong=wrong)


class Begun:
    def __init__(self, parameters, rate, betas=(0.9, 0.98), eps=1e-9): ...

    def step(self): ...


TRAINING = [
    (adam("no correction"), "after step 1, a parameter holds .* is the correction by 1 - β"),
    (adam("upwards"), "It steps along the gradient instead of against it"),
    (adam("no count"), r"after step 2.* do m, v and the number of steps go on"),
    (adam("inside"), r"eps=0.1, after step 1"),
    (adam("no gradient"), "it stops with TypeError"),
    (
        lambda p, rate, *rest, **more: Adam(p, 1.01 * rate, *rest, **more),
        "after step 1, a parameter",
    ),
]

# --- decoding ---------------------------------------------------------------------------------


def searched(width=None, end=True):
    """The package's own beam search; narrower, or without its end."""

    def search_of(model, source, asked, limit):
        found = beam(model, source, width or asked, limit, length_penalty=0.0).tokens[0, 0].tolist()
        tokens = [token for token in found if token]
        return tokens if end else tokens[:-1]

    return search_of


DECODING = [
    (searched(width=1), "with a width of 4, it finds 'a cake is standing .*and a beam of 4 finds"),
    (searched(end=False), "no 1 and no 0 in it, one 2 at its end"),
    (lambda *_: "a cake", "a list of tokens is asked for, and this is 'a cake'"),
    (lambda *_: [1, 5, 2], "no 1 and no 0 in it"),
]

# --- inside -----------------------------------------------------------------------------------


def attribution(norm=True, centred=True, constant=True):
    def of(model, source, target):
        inputs, labels = teacher_forcing(target)
        parts = []

        def hear(_module, given, out):
            parts.extend([out - given[0]] if parts else [given[0], out - given[0]])

        hooks = [
            layer.get_submodule(name).register_forward_hook(hear)
            for layer in model.decoder.layers
            for name in ("self_residual", "cross_residual", "feed_forward_residual")
        ]
        model(source, inputs)
        for hook in hooks:
            hook.remove()
        last = model.decoder.norm
        scale = (sum(parts).var(-1, unbiased=False, keepdim=True) + last.eps).sqrt()
        rows = model.generator.weight[labels]
        made = []
        for part in parts:
            x = part - part.mean(-1, keepdim=True) if centred else part
            made.append((x / scale * (last.weight if norm else 1) * rows).sum(-1))
        bias = model.generator.bias
        rest = (last.bias * rows).sum(-1) + (0 if bias is None else bias[labels])
        return torch.stack([*made, rest] if constant else made)

    return of


INSIDE = [
    (attribution(norm=False), "with output_bias=False, holds"),
    (attribution(centred=False), "with output_bias=False, holds"),
    (attribution(constant=False), r"has shape \[7, 2, 3\], not \[8, 2, 3\]"),
]


def merges(words, n, *, weighted=True):
    """Byte-pair encoding; of another reader, who counts each word once."""
    spelt = {tuple(word): count if weighted else 1 for word, count in words.items()}
    found = []
    for _ in range(n):
        counts = Counter()
        for pieces, count in spelt.items():
            for pair in pairwise(pieces):
                counts[pair] += count
        found.append(max(sorted(counts, reverse=True), key=counts.get))
        spelt = {tuple(once(pieces, found[-1])): count for pieces, count in spelt.items()}
    return found


TRANSLATING = [
    (
        lambda words, n: merges(words, n, weighted=False),
        r"not yet: merge \d of .* times; .* occurs",
    ),
    (lambda words, n: merges(words, n)[:-1], r"gives \d merges, where \d were asked for"),
]

# --- speed ------------------------------------------------------------------------------------


def start(model, source):
    with torch.no_grad():
        memory = model.embed(model.source_embedding, source)
        for layer in model.encoder:
            memory = layer(memory, (source != 0)[:, None, None])
        memory = model.encoder_norm(memory)[0]
        width, layers = memory.shape[-1], []
        embedding = model.target_embedding.weight * math.sqrt(width)
        position = plain.positions(512, width).to(memory)
        for layer in model.decoder:
            own, across = layer.self_attention, layer.cross_attention
            parts = own.query, own.key, own.value
            joint = [
                torch.cat([getattr(part, name) for part in parts]) for name in ("weight", "bias")
            ]
            heads = own.n_heads
            split = (heads, width // heads)
            read = [
                part(memory).unflatten(-1, split).transpose(0, 1)
                for part in (across.key, across.value)
            ]
            past = torch.zeros(2, heads, 512, width // heads)
            layers.append((layer, joint, past, read))
    time = 0

    @torch.inference_mode()
    def step(token):
        nonlocal time
        x = embedding[token] + position[time]
        time += 1
        for layer, joint, past, read in layers:
            y = F.linear(layer.self_norm(x), *joint).view(3, heads, 1, -1)
            past[:, :, time - 1] = y[1:, :, 0]
            keys, values = past[:, :, :time]
            y = F.scaled_dot_product_attention(y[0], keys, values)
            x = x + layer.self_attention.output(y.view(width))
            y = layer.cross_attention.query(layer.cross_norm(x)).view(heads, 1, -1)
            y = F.scaled_dot_product_attention(y, *read)
            x = x + layer.cross_attention.output(y.view(width))
            x = x + layer.feed_forward(layer.feed_forward_norm(x))
        return model.generator(model.decoder_norm(x))

    return step


def anew(model, source):
    """Right, and without a cache."""
    given = []

    @torch.no_grad()
    def step(token):
        given.append(token)
        return model(source, torch.tensor([given]))[0, -1]

    return step


def stubborn(model, source):
    """Says at every step what it said at the first."""
    step, first = start(model, source), []
    return lambda token: first[0] if first else first.append(step(token)) or first[0]


def other_words(model, source):
    step = start(model, source)
    return lambda token: step(token - 1)


SPEED = [
    (anew, r"step 1 for the source \[5, 7, 9, 4, 2\] takes \d+ calls, more than 80"),
    (stubborn, r"step 2 for the source \[5, 7, 9, 4, 2\] holds"),
    (other_words, r"step 1 for the source \[5, 7, 9, 4, 2\] holds"),
    (lambda model, source: lambda token: [0.0], "step 1 .* should be a tensor and is a list"),
]

# --- larger -----------------------------------------------------------------------------------


class Again(torch.autograd.Function):
    """Of a reader; what is wrong with it is chosen by name."""

    @staticmethod
    def forward(ctx, run, x, wrong):
        ctx.run, ctx.wrong, ctx.random = run, wrong, torch.get_rng_state()
        ctx.save_for_backward(x)
        if wrong == "once more":
            run(x)
        return run(x)

    @staticmethod
    def backward(ctx, gradient):
        [x] = ctx.saved_tensors
        x = x.detach().requires_grad_()
        after = torch.get_rng_state()
        if ctx.wrong != "other numbers":
            torch.set_rng_state(ctx.random)
        with torch.enable_grad():
            result = ctx.run(x)
        if ctx.wrong != "draws on":
            torch.set_rng_state(after)
        if ctx.wrong == "x alone":
            return None, *torch.autograd.grad(result, x, gradient), None
        result.backward(gradient)
        return None, x.grad, None


def again(wrong=""):
    return lambda run, x: Again.apply(run, x, wrong)


LARGER = [
    (lambda run, x: run(x), "with dropout 0.0, 480 bytes are kept for the backward pass; x has 96"),
    (lambda run, x: 2 * x, "with dropout 0.0, the result holds"),
    (again("x alone"), r"with dropout 0.0, the gradient of 0\.weight is missing"),
    (again("other numbers"), "with dropout 0.5, .* draw the same random numbers"),
    (again("draws on"), "with dropout 0.0, the next random number holds"),
    (again("once more"), "with dropout 0.0, run was called 3 times; once in each pass"),
]


def examine(*forgotten):
    """Finds what it is not told to forget."""

    def found(model):
        source, target = torch.tensor([[4, 9, 2, 7, 5]]), torch.tensor([[3, 11, 8, 6]])
        before, broken = model(source, target), set()

        def moved(x, y):
            return (model(x, y)[:, :4] - before).abs().amax(-1)[0] > 1e-5

        other_target, other_source = target.clone(), source.clone()
        other_target[0, 3], other_source[0, 0] = 15, 11
        if moved(source, other_target)[:3].any():
            broken.add("causality")
        if not moved(other_source, target).all():
            broken.add("source")
        longer = torch.nn.functional.pad
        if moved(longer(source, (0, 3)), longer(target, (0, 2))).any():
            broken.add("padding")
        return broken - {*forgotten}

    return found


BUGS = [
    (lambda model: set(), r"NoCausalMask breaks causality, and examine\(...\) says nothing"),
    (lambda model: {"source"}, r"Healthy breaks nothing, and examine\(...\) says source"),
    (examine("source"), "NoCrossAttention breaks source"),
    (examine("padding"), "SourcePaddingIsSeenByTheEncoder breaks padding"),
]

# --- claims -----------------------------------------------------------------------------------


def bootstrap(seeds=True, captions=True, share=0.95):
    """Draws seeds and captions anew, or one of them alone."""

    def of(less):
        draws, means = torch.Generator().manual_seed(7), []
        for _ in range(3000):
            rows, columns = (torch.randint(n, (n,), generator=draws) for n in less.shape)
            drawn = less[rows] if seeds else less
            means.append((drawn[:, columns] if captions else drawn).mean())
        tails = torch.tensor([(1 - share) / 2, (1 + share) / 2], dtype=less.dtype)
        return torch.stack(means).quantile(tails).tolist()

    return of


def each_by_itself(less):
    """As if every number were drawn alone, and not its row and its column."""
    draws, flat = torch.Generator().manual_seed(7), less.flatten()
    means = [
        flat[torch.randint(len(flat), (len(flat),), generator=draws)].mean() for _ in range(3000)
    ]
    return torch.stack(means).quantile(torch.tensor([0.025, 0.975], dtype=less.dtype)).tolist()


CLAIMS = [
    (bootstrap(seeds=False), "where seeds spread by 3 and captions by 0"),
    (bootstrap(captions=False), "where seeds spread by 0 and captions by 3"),
    (bootstrap(share=0.8), "not yet: 1.* to 2.*, and not about 1"),
    (each_by_itself, "where seeds spread by"),
]

RIGHT = {
    "claims project": bootstrap(),
    "testing project": examine(),
    "speed project": start,
    "larger project": again(),
    "translating project": merges,
    "inside project": attribution(),
    "training project": Adam,
    "decoding project": searched(),
    "masks project": packed_mask,
    "positions project": rotate,
    "attention project": OneByOne,
    "feed_forward project": memory,
    "encoder project": contributions,
    "decoder project": generate,
    "transformer project": plain,
}
WRONG = {
    "claims project": CLAIMS,
    "testing project": BUGS,
    "speed project": SPEED,
    "larger project": LARGER,
    "translating project": TRANSLATING,
    "inside project": INSIDE,
    "training project": TRAINING,
    "decoding project": DECODING,
    "masks project": MASKS,
    "positions project": POSITIONS,
    "attention project": ATTENTION,
    "feed_forward project": FEED_FORWARD,
    "encoder project": ENCODER,
    "decoder project": DECODER,
    "transformer project": TRANSFORMER,
}

"""Answers to the + tasks, right and wrong."""

import math
from collections import Counter
from itertools import pairwise

import torch
from torch.nn import functional as F

from unmasked import plain
from unmasked.loss import teacher_forcing
from unmasked.masks import causal_mask, padding_mask
from unmasked.positions import frequencies
from unmasked.search import beam
from unmasked_book.exercises.family import edited
from unmasked_book.exercises.translating import once
from unmasked_book.family import GPT
from unmasked_book.workshop.mistakes import known

# --- masks ------------------------------------------------------------------------------------


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
    (lambda t: padding_mask(t) & causal(t), "position 4 sees position 0, .* another sentence"),
    (
        lambda t: same((t == 2).cumsum(-1)) & causal(t) & padding_mask(t),
        "the <eos> at 3 goes with what comes after it",
    ),
    (lambda t: packed_mask(t).tril(-1), "position 0 does not see position 0, which is not later"),
]

# --- positions --------------------------------------------------------------------------------


def rotate(x, start=0, *, power=1, sign=1, halves=False):
    places = torch.arange(start, start + x.shape[-2])[:, None] ** power
    angle = sign * places * frequencies(x.shape[-1])
    a, b = x.chunk(2, dim=-1) if halves else (x[..., 0::2], x[..., 1::2])
    turned = [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()]
    return torch.cat(turned, -1) if halves else torch.stack(turned, -1).flatten(-2)


POSITIONS = [
    (lambda x, start=0: rotate(x, start + 1), "the row at position 0, .* holds"),
    (lambda x, start=0: rotate(x, start, sign=-1), "it turns the other way"),
    (lambda x, start=0: rotate(x, start, halves=True), r"it pairs columns i and i \+ K/2"),
]


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


def changed(change):
    return lambda model, source: change(contributions(model, source))


ENCODER = [
    (changed(lambda parts: parts[1:]), "has 2 parts, and should have 3: the embedding"),
    (changed(lambda parts: parts[0]), "has 2 parts, and should have 3|part 0"),
    (changed(lambda parts: dict(enumerate(parts))), "a list of tensors is .* this is a dict"),
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


def with_option(**option):
    return lambda model, source, n: generate(model, source, n, **option)


DECODER = [
    (uncached, "right tokens, but the feed-forward of layer 1 saw 15 positions where 5 are enough"),
    (decoded_again, "the feed-forward of layer 1 saw 15 positions where 5 are enough"),
    (with_option(kept="vectors"), "self_attention.key of layer 1 saw 15 positions where 5 are"),
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
]

# --- testing ----------------------------------------------------------------------------------


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
    (lambda model: set(), r"no causal mask breaks causality, and examine\(...\) says nothing"),
    (lambda model: {"source"}, r"Healthy breaks nothing, and examine\(...\) says source"),
    (examine("source"), "no cross-attention breaks source"),
]

# --- family -----------------------------------------------------------------------------------

FAMILY = [(edited(*each.changes[0]), f"are those of {each.words}") for each in known("GPT")]
FAMILY += [(edited("std=d_model**-0.5)", "std=1)\n        del self.dropout"), "AttributeError")]
FAMILY += [(edited("decoder_norm(x))", "decoder_norm(x)) + 1"), "the output holds")]

RIGHT = {
    "family +": GPT,
    "testing +": examine(),
    "speed +": start,
    "translating +": merges,
    "inside +": attribution(),
    "training +": Adam,
    "decoding +": searched(),
    "masks +": packed_mask,
    "positions +": rotate,
    "feed_forward +": memory,
    "encoder +": contributions,
    "decoder +": generate,
}
WRONG = {
    "family +": FAMILY,
    "testing +": BUGS,
    "speed +": SPEED,
    "translating +": TRANSLATING,
    "inside +": INSIDE,
    "training +": TRAINING,
    "decoding +": DECODING,
    "masks +": MASKS,
    "positions +": POSITIONS,
    "feed_forward +": FEED_FORWARD,
    "encoder +": ENCODER,
    "decoder +": DECODER,
}

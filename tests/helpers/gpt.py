"""A small GPT with grouped heads, rotary positions and a cache, and bugs to plant in its source."""

import inspect
import math

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY = 61


class Attention(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, groups * self.size, bias=False) for _ in "kv")
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x, positions, mask, past):
        batch, length, width = x.shape
        split = (batch, length, -1, self.size)
        q, k, v = (
            each(x).view(split).transpose(1, 2) for each in (self.query, self.key, self.value)
        )
        q, k = rotated(q, positions), rotated(k, positions)
        if past is not None:
            k, v = (torch.cat(pair, 2) for pair in zip(past, (k, v), strict=True))
        new = k, v
        k, v = (each.repeat_interleave(self.heads // self.groups, 1) for each in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.size)
        weights = scores.masked_fill(~mask, -1e9).softmax(-1)
        return self.output((weights @ v).transpose(1, 2).reshape(batch, length, width)), new


class Block(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.norm, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, groups)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, positions, mask, past):
        y, new = self.attention(self.norm(x), positions, mask, past)
        x = x + y
        return x + self.down(F.gelu(self.up(self.second(x)))), new


class GPT(nn.Module):
    def __init__(self, width=32, heads=4, groups=2, layers=2, window=99):
        super().__init__()
        self.embedding, self.window, self.kept = nn.Embedding(VOCABULARY, width), window, 0
        self.blocks = nn.ModuleList(Block(width, heads, groups) for _ in range(layers))
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)

    def forward(self, tokens, seen=0, cache=None):
        real, length = tokens != 0, tokens.shape[1]
        positions = (real.cumsum(1) - 1).clamp(min=0)[:, seen:]
        x = self.embedding(tokens[:, seen:])
        queries, keys = torch.arange(seen, length)[:, None], torch.arange(length)
        mask = (keys <= queries) & (queries - keys < self.window)
        mask = (mask & real[:, None]) | (keys == queries)
        new = []
        for number, block in enumerate(self.blocks):
            past = None if cache is None else cache[number]
            x, state = block(x, positions, mask[:, None], past)
            new.append(state)
        return self.output(self.norm(x)), new


def rotated(x, positions):
    half = x.shape[-1] // 2
    angles = positions[:, None, :, None] * 10_000 ** (-torch.arange(half) / half)
    left, right = x.chunk(2, -1)
    turned = torch.cat([-right, left], -1)
    return x * angles.cos().repeat(1, 1, 1, 2) + turned * angles.sin().repeat(1, 1, 1, 2)


SOURCE = "\n\n".join(map(inspect.getsource, (Attention, Block, GPT, rotated)))


def gpt(*changes, **options):
    """Makes a GPT; each change is an old and a new text of its source."""
    source = SOURCE
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    names = dict(globals())
    exec(source, names)
    torch.manual_seed(0)
    return names["GPT"](**options).eval()


def forward(model, tokens):
    return model(tokens)[0]


def step(model, tokens, seen, cache):
    return model(tokens, seen, cache)

"""Attention drawn: by hand, as a flow, in heads, and what happens if its scores get too large.

Everywhere the query is orange, keys are blue, values green, scores and weights purple.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from unmasked.errors import check_choice, check_heads, invalid
from unmasked_book.schematics.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, YELLOW, Drawing

HEADS = (PURPLE, YELLOW, GREEN, BLUE)
LARGEST = 9  # coordinate that is drawn

Point = tuple[float, float]  # on the page
Place = Callable[[Sequence[float]], Point]  # where a vector ends on the page


class Frame(NamedTuple):
    """A part of the page."""

    x: float
    y: float
    width: float
    height: float


# --- One token by hand ------------------------------------------------------------------------


def five_steps(
    tokens: Sequence[str], query: Tensor, keys: Tensor, values: Tensor, chosen: str
) -> Drawing:
    """Attention for the chosen token: compare, score, divide, softmax, mix. Vectors of width 2."""
    check_sentence(tokens, chosen)
    check_vectors("query", query, 2)
    check_vectors("keys", keys, len(tokens), 2)
    check_vectors("values", values, len(tokens), 2)
    query, keys, values = query.double(), keys.double(), values.double()
    scores = keys @ query
    divided = scores / math.sqrt(2)
    weights = divided.softmax(0)
    output = weights @ values
    pen = Drawing(
        f"Attention by hand for “{chosen}”, in five panels. "
        f"1 compare: its query {point(query)} with the keys {listed(tokens, map(point, keys))}. "
        f"2 scores, query · key: {listed(tokens, numbers(scores))}. "
        f"3 divided by √2: {listed(tokens, numbers(divided, 2))}. "
        f"4 softmax: {listed(tokens, numbers(weights, 2))}. "
        f"5 mix: the values {listed(tokens, map(point, values))}, each times its weight, add up "
        f"to the output {point(output)}.",
        660,
        520,
    )
    compare, mix = Frame(1, 1, 234, 206), Frame(247, 219, 412, 300)
    card(pen, compare, "1 compare", f"query {point(query)} with every key")
    compared(pen, compare, tokens, query, keys)
    reach = (min(0.0, float(scores.min())), max(0.0, float(scores.max())))  # the same for both
    second, third, fourth = (
        Frame(247, 1, 200, 206),
        Frame(459, 1, 200, 206),
        Frame(1, 219, 234, 300),
    )
    card(pen, second, "2 scores", "query · key")
    bars(pen, second, tokens, scores, numbers(scores), reach)
    card(pen, third, "3 ÷ √2", "score ÷ 1.41")
    bars(pen, third, tokens, divided, numbers(divided, 2), reach)
    card(pen, fourth, "4 softmax", "weights: positive, together 1")
    bars(pen, fourth, tokens, weights, numbers(weights, 2), (0.0, float(weights.max())))
    card(pen, mix, "5 mix", f"the sum of weight × value is {point(output)}")
    mixed(pen, mix, tokens, weights, values)
    return pen


def compared(
    pen: Drawing, frame: Frame, tokens: Sequence[str], query: Tensor, keys: Tensor
) -> None:
    """Keys as arrows; the query beside the key that it would hide."""
    place = plane(pen, inside(frame, 46), torch.cat([query[None], keys]))
    start, end = place((0, 0)), place(query.tolist())
    for token, key in zip(tokens, keys.tolist(), strict=True):
        pen.line([start, place(key)], BLUE, 2.2, arrow=True)
        label(pen, start, place(key), token)
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    aside = (-math.sin(angle), math.cos(angle))  # to its right
    shift = 6.0 if any(same_direction(query, key) for key in keys) else 0.0
    moved = [(x + shift * aside[0], y + shift * aside[1]) for x, y in (start, end)]
    pen.line(moved, ORANGE, 3, arrow=True)
    middle = [(a + b) / 2 + 14 * turn for a, b, turn in zip(*moved, aside, strict=True)]
    pen.text(middle[0], middle[1] + 4.5, "query", "small")


def same_direction(a: Tensor, b: Tensor) -> bool:
    across = float(a[0] * b[1] - a[1] * b[0])
    return float(a @ b) > 0 and abs(across) < 1e-6


def mixed(
    pen: Drawing, frame: Frame, tokens: Sequence[str], weights: Tensor, values: Tensor
) -> None:
    """Values as arrows, as strong as their weights, and their weighted mean."""
    output = weights @ values
    place = plane(pen, inside(frame, 88), torch.cat([output[None], values]))
    start, end = place((0, 0)), place(output.tolist())
    for token, weight, value in zip(tokens, weights.tolist(), values.tolist(), strict=True):
        pen.line(
            [start, place(value)], GREEN, 2.2, arrow=True, opacity=round(0.3 + 0.7 * weight, 2)
        )
        label(pen, start, place(value), f"{token}, {number(weight, 2)}")
    part = max(0.0, 1 - 6 / max(math.dist(start, end), 1e-6))  # the head covers the rest
    stem = (start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1]))
    pen.line([start, stem], ORANGE, 3.5)
    pen.head(start, end, ORANGE, 1.0)
    pen.text(end[0], end[1] + (-10 if output[1] >= 0 else 20), "output", "title")


def card(pen: Drawing, frame: Frame, title: str, note: str) -> None:
    pen.box(*frame, fill=0.06)
    pen.text(frame.x + 14, frame.y + 24, title, "title start")
    pen.text(frame.x + 14, frame.y + 42, note, "small start")


def inside(frame: Frame, side: float) -> Frame:
    """What is left of a card for its plane: below the titles, with room for words at the sides."""
    return Frame(frame.x + side, frame.y + 70, frame.width - 2 * side, frame.height - 98)


def plane(pen: Drawing, frame: Frame, vectors: Tensor) -> Place:
    """Faint axes and whole numbers around the vectors, all of them in the frame."""
    low = [int(x) for x in vectors.amin(0).clamp(max=0).floor()]
    high = [int(x) for x in vectors.amax(0).clamp(min=0).ceil()]
    span = [max(1, b - a) for a, b in zip(low, high, strict=True)]
    unit = min(frame.width / span[0], frame.height / span[1])
    left = frame.x + (frame.width - unit * (high[0] - low[0])) / 2
    top = frame.y + (frame.height - unit * (high[1] - low[1])) / 2

    def place(vector: Sequence[float]) -> Point:
        return left + (vector[0] - low[0]) * unit, top + (high[1] - vector[1]) * unit

    for x in range(low[0], high[0] + 1):
        rule(pen, place((x, low[1])), place((x, high[1])), axis=x == 0)
    for y in range(low[1], high[1] + 1):
        rule(pen, place((low[0], y)), place((high[0], y)), axis=y == 0)
    return place


def rule(pen: Drawing, start: Point, end: Point, axis: bool) -> None:
    pen.line([start, end], GREY, 1.2 if axis else 0.8, opacity=0.8 if axis else 0.35)


def label(pen: Drawing, start: Point, tip: Point, words: str) -> None:
    """Words beyond an arrow's tip."""
    angle = math.atan2(tip[1] - start[1], tip[0] - start[0])
    side = "start" if math.cos(angle) > 0.4 else "end" if math.cos(angle) < -0.4 else ""
    x, y = tip[0] + 9 * math.cos(angle), tip[1] + 13 * math.sin(angle)
    pen.text(x, y + 4.5, words, f"small {side}")


def bars(
    pen: Drawing, frame: Frame, tokens: Sequence[str], lengths: Tensor, written: Sequence[str],
    reach: tuple[float, float],
) -> None:  # fmt: skip
    """A bar for each token, from zero to either side, and its number at the right edge."""
    left, right, top = frame.x + 62, frame.x + frame.width - 60, frame.y + 58
    unit = (right - left) / ((reach[1] - reach[0]) or 1.0)
    zero, pitch = left - reach[0] * unit, (frame.height - 70) / len(tokens)
    pen.line([(zero, top), (zero, frame.y + frame.height - 12)], GREY, 1.2, opacity=0.8)
    for row, (token, length, said) in enumerate(zip(tokens, lengths, written, strict=True)):
        y, end = top + (row + 0.5) * pitch, zero + float(length) * unit
        pen.text(frame.x + 14, y + 4.5, token, "start")
        pen.bar(min(zero, end), y - 8, abs(end - zero), 16, PURPLE)
        pen.text(frame.x + frame.width - 14, y + 4.5, said, "mono end")


# --- The flow for one token -------------------------------------------------------------------

TALL, BLOCK = 28, 250  # a box; a row of boxes


def query_key_value(tokens: Sequence[str], chosen: str) -> Drawing:
    """From all tokens' vectors to the output of one: query, keys, values, weights, sum."""
    check_sentence(tokens, chosen)
    said = ", ".join(tokens)
    pen = Drawing(
        f"How attention makes the output of “{chosen}” from the tokens {said}. From every token's "
        f"vector x the matrix W_K makes a key, and W_V a value; W_Q makes the query, from that of "
        f"“{chosen}” alone. The query · each of the {len(tokens)} keys is a score; ÷ √dₖ and the "
        f"softmax turn the scores into {len(tokens)} weights. Each value times its weight, summed, "
        f"is the output for “{chosen}”.",
        660,
        584,
    )
    query, keys, values = 52.0, columns(136, len(tokens)), columns(402, len(tokens))
    vectors = columns(269, len(tokens))
    wide = min(80.0, BLOCK / len(tokens) - 8)
    own = vectors[list(tokens).index(chosen)]
    for x, token in zip(vectors, tokens, strict=True):
        pen.box(x - wide / 2, 42, wide, TALL, token, ORANGE if x == own else GREY)
        pen.line([(x, 70), (x, 86)])
    pen.text(528, 60, "one vector x per token", "small start")
    pen.line([(own, 42), (own, 20), (query, 20), (query, 101)], ORANGE, 2, arrow=True)
    pen.line([(261, 101), (261, 86), (527, 86), (527, 101)], arrow=True)
    pen.head((261, 86), (261, 101), "currentColor", 1.0)
    for x, index, name, colour, ends, words in (
        (query, "Q", "query", ORANGE, [query], [chosen]),
        (261.0, "K", "keys", BLUE, keys, tokens),
        (527.0, "V", "values", GREEN, values, tokens),
    ):
        pen.box(x - 22, 102, 44, TALL, colour=colour, fill=0.1)
        pen.indexed(x, 119, "W", index)
        pen.text(x + 32, 121, name, "title start")
        pen.line([(x, 130), (x, 146)], colour)
        pen.line([(ends[0], 163), (ends[0], 146), (ends[-1], 146), (ends[-1], 163)], colour)
        for end, token in zip(ends, words, strict=True):
            pen.arrow((end, 146), (end, 163), colour)
            pen.box(end - wide / 2, 164, wide, TALL, token, colour, 0.32)
    scored(pen, query, keys, wide, tokens)
    summed(pen, keys, values)
    pen.box(447, 548, 160, 30, f"output for “{chosen}”", ORANGE, 0.32)
    return pen


def columns(left: float, count: int) -> list[float]:
    """The middles of a row of boxes."""
    return [left + (i + 0.5) * BLOCK / count for i in range(count)]


def scored(
    pen: Drawing, query: float, keys: list[float], wide: float, tokens: Sequence[str]
) -> None:
    """The query meets every key; the scores become weights."""
    meet(pen, [(query, 192), (query, 226)], keys, 226, "·", ORANGE)
    pen.text(query + 8, 218, "query · key", "small start")
    for name, y in (("scores", 256), ("weights", 366)):
        pen.text(124, y + 18.5, name, "title end")
        for x, token in zip(keys, tokens, strict=True):
            pen.box(x - wide / 2, y, wide, TALL, token, PURPLE)
    for x in keys:
        pen.line([(x, 192), (x, 217)], BLUE)
        pen.arrow((x, 235), (x, 255), PURPLE)
        pen.arrow((x, 284), (x, 309), PURPLE)
        pen.arrow((x, 340), (x, 365), PURPLE)
    pen.box(140, 310, 242, 30, "÷ √dₖ, then softmax", PURPLE, 0.1)


def summed(pen: Drawing, keys: list[float], values: list[float]) -> None:
    """Every value meets its own weight, and all are added up."""
    for number, (x, value) in enumerate(zip(keys, values, strict=True)):
        y = 404 + 20 * (len(keys) - 1 - number)  # the first is the lowest: no lines cross twice
        pen.line([(value, 192), (value, y - 9)], GREEN)
        pen.arrow((value, y + 9), (value, 495), GREEN)
        pen.line([(x, 394), (x, y), (value - 10, y)], PURPLE, 1.6, arrow=True)
        pen.circle(value, y, 9, GREY, 0)
        pen.text(value, y + 4.5, "×", "title")
    pen.box(406, 496, 242, TALL, "sum of weight × value", GREEN, 0.1)
    pen.arrow((527, 524), (527, 547), ORANGE, 2)


def meet(
    pen: Drawing, path: list[Point], nodes: list[float], y: float, sign: str, colour: str
) -> None:
    """A line that comes by at every node, each a sign in a circle."""
    for x in nodes:
        pen.line([*path, (x - 10, y)], colour, 2, arrow=True)
        pen.circle(x, y, 9, GREY, 0)
        pen.text(x, y + 4.5, sign, "title")
        path = [(x + 10, y)]


# --- Heads ------------------------------------------------------------------------------------


def split_and_merge(d_model: int = 12, n_heads: int = 3) -> Drawing:
    """One position's vector: a product for all heads, cut, attended, put together, W_O."""
    check_heads(d_model, n_heads)
    if n_heads > 4 or not 2 * n_heads <= d_model <= 24:
        expected = "up to 4 heads, at least 2 wide, in a width of up to 24"
        raise invalid("d_model", expected, f"{d_model} and {n_heads} heads", "draw a smaller one")
    width = d_model // n_heads
    pen = Drawing(
        f"Multi-head attention for one position's vector, D = {d_model} numbers, H = {n_heads}. "
        f"One product with W_Q makes all heads' queries: [B, T, D]. They are cut into {n_heads} "
        f"heads of width K = D / H = {width}: [B, H, T, K]. Each head attends by itself, with its "
        f"own keys and values. The outputs, [B, H, T, K], are put side by side: [B, T, D]. "
        f"The matrix W_O mixes them and makes the new vector: [B, T, D].",
        660,
        498,
    )
    size = min(28, 336 // d_model)
    whole = lanes(size * width, n_heads, 0)
    apart = lanes(size * width, n_heads, 20)
    plain, coloured = [GREY] * n_heads, list(HEADS[:n_heads])
    note(pen, 30, "[B, T, D]", "the vector x", "of one position")
    cells(pen, whole, 30, size, width, plain, 0.4)
    product(pen, whole, 86, size * width, "Q")
    note(pen, 86, "[D, D]", "one product", "for all heads")
    note(pen, 136, "[B, T, D]", "all queries")
    cells(pen, whole, 136, size, width, coloured, 1.7)
    fan(pen, whole, apart, 150, 186, size * width, coloured)
    note(pen, 200, "[B, H, T, K]", "cut into heads", f"K = D / H = {width}")
    cells(pen, apart, 200, size, width, coloured, 1.7)
    note(pen, 249, "", "each head attends", "by itself")
    for head, x in enumerate(apart):
        middle = x + size * width / 2
        pen.arrow((middle, 216), (middle, 232), coloured[head])
        pen.box(x, 233, size * width, 32, f"head {head + 1}", coloured[head], 0.12)
        pen.arrow((middle, 265), (middle, 283), coloured[head])
    note(pen, 298, "[B, H, T, K]", "their outputs")
    cells(pen, apart, 298, size, width, coloured, 3.1)
    fan(pen, apart, whole, 312, 348, size * width, coloured)
    note(pen, 362, "[B, T, D]", "side by side")
    cells(pen, whole, 362, size, width, coloured, 3.1)
    product(pen, whole, 418, size * width, "O")
    note(pen, 418, "[D, D]", "mixes the heads")
    note(pen, 468, "[B, T, D]", "the new vector")
    cells(pen, whole, 468, size, width, plain, 5.3)
    return pen


def lanes(width: float, count: int, gap: float) -> list[float]:
    """The left ends of the heads' parts, in the middle of the page."""
    left = 348 - (count * width + (count - 1) * gap) / 2
    return [left + i * (width + gap) for i in range(count)]


def note(pen: Drawing, y: float, shape: str, *lines: str) -> None:
    """What it is to the left of a row, its shape to the right."""
    for i, words in enumerate(lines):
        pen.text(8, y + 4.5 + 16 * (i - (len(lines) - 1) / 2), words, "start")
    pen.text(566, y + 4.5, shape, "mono start")


def cells(
    pen: Drawing, left: list[float], y: float, size: int, width: int, colours: list[str],
    phase: float,
) -> None:  # fmt: skip
    """Numbers, shown by their strength alone."""
    for head, (x, colour) in enumerate(zip(left, colours, strict=True)):
        for i in range(width):
            strength = 0.2 + 0.65 * abs(math.sin(phase + 2.4 * (head * width + i)))
            pen.cell(x + i * size, y - size / 2, size, strength, colour)


def product(pen: Drawing, left: list[float], y: float, width: float, index: str) -> None:
    """The matrix that a whole vector goes through, with arrows into it and out."""
    middle = (left[0] + left[-1] + width) / 2
    pen.arrow((middle, y - 40), (middle, y - 15))
    pen.box(left[0], y - 14, left[-1] + width - left[0], 28)
    pen.indexed(middle, y + 3, "× W", index)
    pen.arrow((middle, y + 14), (middle, y + 35))


def fan(
    pen: Drawing, above: list[float], below: list[float], top: float, bottom: float, width: float,
    colours: list[str],
) -> None:  # fmt: skip
    """Dashed lines from where a head's part was to where it goes."""
    for start, end, colour in zip(above, below, colours, strict=True):
        for edge in (3, width - 3):
            pen.line([(start + edge, top + 2), (end + edge, bottom - 2)], colour, dashed=True)


# --- Scores that are too large ----------------------------------------------------------------


def saturation(scores: Sequence[float], factors: Sequence[float]) -> Drawing:
    """The softmax of the same scores, times each of the factors: less and less undecided."""
    if not 2 <= len(scores) <= 6:
        raise invalid("scores", "2 to 6 of them", len(scores), "more bars have no room")
    if not 1 <= len(factors) <= 3:
        raise invalid("factors", "1 to 3 of them", len(factors), "more panels have no room")
    larger = torch.tensor(factors, dtype=torch.float64)[:, None] * torch.tensor(scores).double()
    if not bool((larger.abs() < 100).all()):
        expected = "scores that stay below 100 when they are multiplied"
        raise invalid("factors", expected, list(factors), "take smaller ones")
    told, wide = [], (658 - 10 * (len(factors) - 1)) / len(factors)
    pen = Drawing("", 660, 300)
    for i, (factor, row) in enumerate(zip(factors, larger, strict=True)):
        weights = row.softmax(0)
        entropy = number(float(torch.special.entr(weights).sum()) / math.log(2), 2)
        slope = number(float((weights * (1 - weights)).sum()), 2)
        frame = Frame(1 + i * (wide + 10), 1, wide, 298)
        pen.box(*frame, fill=0.06)
        middle = frame.x + wide / 2
        pen.text(middle, 26, f"scores × {factor:g}", "title")
        pen.text(middle, 44, "weights above, scores below", "small")
        columns_of(pen, frame, row, weights)
        pen.text(middle, 262, f"entropy {entropy} bits")
        pen.text(middle, 282, f"slope Σ w(1 − w) = {slope}")
        made = listed(numbers(row), [f"gets {w}" for w in numbers(weights, 2)])
        told.append(
            f"Scores × {factor:g}: {made}; entropy {entropy} bits, slope Σ w(1 − w) {slope}."
        )
    pen.words = f"The softmax of the same {len(scores)} scores, multiplied. {' '.join(told)}"
    return pen


def columns_of(pen: Drawing, frame: Frame, scores: Tensor, weights: Tensor) -> None:
    """Upright bars of weight, each over its score."""
    left, pitch = frame.x + 4, (frame.width - 8) / len(scores)
    wide = min(26.0, pitch - 8)
    digits = 0 if float(scores.abs().max()) >= 10 else None  # long numbers would touch
    for i, (weight, score, written) in enumerate(
        zip(weights.tolist(), numbers(scores, digits), numbers(weights, 2), strict=True)
    ):
        x, tall = left + (i + 0.5) * pitch, 138 * weight
        pen.bar(x - wide / 2, 212 - tall, wide, tall, PURPLE)
        pen.text(x, 206 - tall, written, "small")
        pen.text(x, 230, score, "small")
    pen.line([(left, 212), (frame.x + frame.width - 4, 212)], GREY, 1.2)


# --- Words, numbers, checks -------------------------------------------------------------------


def number(x: float, digits: int | None = None) -> str:
    """With so many digits after the point; else as many as it needs, up to one or two."""
    rounded = round(x, 2 if digits is None else digits) + 0.0  # no -0
    return (f"{rounded:g}" if digits is None else f"{rounded:.{digits}f}").replace("-", "−")


def numbers(values: Tensor, digits: int | None = None) -> list[str]:
    return [number(x, digits) for x in values.tolist()]


def point(vector: Tensor) -> str:
    return f"({', '.join(numbers(vector))})"


def listed(names: Sequence[str], said: Iterable[str]) -> str:
    return ", ".join(f"{name} {words}" for name, words in zip(names, said, strict=True))


def check_sentence(tokens: Sequence[str], chosen: str) -> None:
    """What has room: up to 5 tokens of up to 6 letters, one of them the chosen."""
    if not 1 <= len(tokens) <= 5 or max(map(len, tokens)) > 6:
        fix = "the boxes have no room for more"
        raise invalid("tokens", "1 to 5 of up to 6 letters", list(tokens), fix)
    check_choice("chosen", chosen, list(tokens))


def check_vectors(argument: str, vectors: Tensor, *wanted: int) -> None:
    if tuple(vectors.shape) != wanted or not bool((vectors.abs() <= LARGEST).all()):
        expected = f"numbers from -{LARGEST} to {LARGEST}, {list(wanted)}"
        raise invalid(argument, expected, vectors.tolist(), "the plane has two axes and ends there")

"""The opening figure: a sentence's way through a translator."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from unmasked.errors import check_number, check_type, check_whole, invalid, shape
from unmasked_book.schematics.decoder import LETTER, check_words
from unmasked_book.schematics.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, Drawing

SHOWN = 8  # numbers of each vector
CELL = 10.0
LEFT, RIGHT = 76.0, 456.0  # between which the pieces stand
ANSWER = 492.0  # from where on the decoder and what it says stand


def journey(
    pieces: Sequence[str],
    ids: Sequence[int],
    vectors: Tensor,
    answer: Sequence[tuple[str, float]],
    layers: int,
    memory: Tensor | None = None,
) -> Drawing:
    """Pieces, their IDs and vectors, through the encoder to the memory, and the decoder's answer.

    `vectors` is [pieces, d], of which the first eight numbers are shown, and `answer` the likeliest
    next tokens with their probabilities; both tokens and pieces are shown as they are given. The
    `memory`, [pieces, d] too, is grey where it is not given.
    """
    check(pieces, ids, vectors, answer, layers)
    if memory is not None and shape(memory) != shape(vectors):
        fix = "give what the encoder makes of the vectors"
        raise invalid("memory", f"the vectors' {shape(vectors)}", shape(memory), fix)
    bars = ", ".join(f"{name} {chance:.2f}" for name, chance in answer)
    told = ", ".join(f"{name} is {int(number)}" for name, number in zip(pieces, ids, strict=True))
    words = (
        f"A sentence's way through a translator. Its {some(len(pieces), 'piece')} become numbers, "
        f"their IDs: {told}. Each becomes a vector of {vectors.shape[1]} numbers, of which {SHOWN} "
        "are drawn, blue where positive, orange where negative. They pass together through the "
        f"encoder, {some(layers, 'layer')}, and leave as {some(len(pieces), 'context vector')}, "
        "the memory. From there the decoder, that is given <bos>, says which token is likely to "
        f"be next: {bars}."
    )
    drawing = Drawing(words, 660, 412)
    encode(drawing, pieces, ids, vectors, memory, layers)
    decode(drawing, answer)
    return drawing


def check(
    pieces: Sequence[str], ids: Sequence[int], vectors: Tensor,
    answer: Sequence[tuple[str, float]], layers: int,
) -> None:  # fmt: skip
    check_words("pieces", pieces, 8, 12)
    if sum(widths(pieces)) + 6 * (len(pieces) - 1) > RIGHT - LEFT:
        raise invalid("pieces", "pieces that fit beside each other", pieces, "take a shorter one")
    if len(ids) != len(pieces):
        raise invalid("ids", f"{len(pieces)}, one for each piece", len(ids), "encode them again")
    check_type("vectors", vectors, Tensor)
    if vectors.dim() != 2 or len(vectors) != len(pieces) or vectors.shape[1] < SHOWN:
        expected = f"[{len(pieces)}, d] with d of at least {SHOWN}"
        raise invalid("vectors", expected, shape(vectors), "give one for each piece")
    check_words("answer", [name for name, _ in answer], 5, 9)
    for _, chance in answer:
        check_number("answer", chance, 0, 1, "give probabilities")
    check_whole("layers", layers, 1)


def some(count: int, name: str) -> str:
    return f"{count} {name}{'s' if count > 1 else ''}"


def widths(pieces: Sequence[str]) -> list[float]:
    """How wide the boxes are: no narrower than an ID of five digits."""
    return [max(38.0, LETTER * len(piece) + 8) for piece in pieces]


def middles(pieces: Sequence[str]) -> list[float]:
    """Where the boxes stand, with the same space between all of them."""
    wide = widths(pieces)
    space = min(24.0, (RIGHT - LEFT - sum(wide)) / max(1, len(wide) - 1))
    left = LEFT + (RIGHT - LEFT - sum(wide) - space * (len(wide) - 1)) / 2
    return [left + sum(wide[:number]) + space * number + own / 2 for number, own in enumerate(wide)]


def encode(
    drawing: Drawing, pieces: Sequence[str], ids: Sequence[int], vectors: Tensor,
    memory: Tensor | None, layers: int,
) -> None:  # fmt: skip
    """The left side, from top to bottom: pieces, IDs, vectors, encoder, memory."""
    drawing.box(LEFT - 6, 278, RIGHT - LEFT + 12, 104, fill=0.07)
    before = first_numbers(vectors)
    after = [None] * len(before) if memory is None else first_numbers(memory)
    for x, wide, piece, number, row, left in zip(
        middles(pieces), widths(pieces), pieces, ids, before, after, strict=True
    ):
        drawing.box(x - wide / 2, 16, wide, 26, piece, kind="mono")
        drawing.arrow((x, 44), (x, 62))
        drawing.text(x, 78, str(int(number)), "mono")
        drawing.arrow((x, 85), (x, 103))
        strip(drawing, x, 106, row)
        strip(drawing, x, 290, left)
        drawing.arrow((x, 188), (x, 209))
        drawing.arrow((x, 257), (x, 277))
    name = f"encoder: {some(layers, 'layer')}"
    drawing.box(LEFT - 6, 211, RIGHT - LEFT + 12, 44, name, GREEN, 0.25, "title")
    for y, name in ((33, "pieces"), (78, "IDs"), (143, "vectors"), (327, "memory")):
        drawing.text(2, y, name, "start")
    drawing.text(2, 160, f"{SHOWN} of {vectors.shape[1]}", "small start")
    drawing.text(2, 344, some(len(pieces), "vector"), "small start")


def first_numbers(vectors: Tensor) -> list[list[float]]:
    """Of each vector, on one scale: the largest of them all is 1."""
    shown = vectors[:, :SHOWN].detach().double().cpu()
    numbers: list[list[float]] = (shown / shown.abs().max().clamp(min=1e-12)).tolist()
    return numbers


def strip(drawing: Drawing, x: float, y: float, values: list[float] | None) -> None:
    """A vector from top to bottom: grey where its numbers are not known."""
    for place in range(SHOWN):
        value = 0.45 if values is None else values[place]
        colour = GREY if values is None else BLUE if value > 0 else ORANGE
        drawing.cell(x - CELL / 2, y + CELL * place, CELL, abs(value), colour)


def decode(drawing: Drawing, answer: Sequence[tuple[str, float]]) -> None:
    """The right side, from bottom to top: what the decoder is given, and what it says."""
    middle = (ANSWER + 656) / 2
    drawing.arrow((RIGHT + 8, 330), (ANSWER - 2, 330), GREY, 2.5)
    drawing.box(ANSWER, 308, 656 - ANSWER, 44, "decoder", PURPLE, 0.25, "title")
    drawing.box(middle - 27, 378, 54, 26, "<bos>", kind="mono")
    drawing.arrow((middle, 376), (middle, 354))
    drawing.arrow((middle, 306), (middle, 282))
    top = 274 - 24 * len(answer)
    drawing.text(middle, top - 14, "the next token", "title")
    highest = max(1e-9, *(chance for _, chance in answer))
    for number, (name, chance) in enumerate(answer):
        y = top + 24 * number
        drawing.text(ANSWER + 66, y + 16, name, "mono end")
        drawing.bar(ANSWER + 74, y + 5, max(1.0, 52 * chance / highest), 14, PURPLE)
        drawing.text(656, y + 16, f"{chance:.2f}", "small end")

"""How a decoder works: all at once while it learns, step by step when it writes."""

from __future__ import annotations

from collections.abc import Sequence

from unmasked.errors import invalid
from unmasked_book.schematics.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, Drawing

LETTER = 7.3  # how wide one is in the monospaced font


def check_words(argument: str, words: Sequence[str], most: int, letters: int) -> None:
    """Words that there is room for: from 1 to `most` of them, each with 1 to `letters` letters."""
    if isinstance(words, str) or not 1 <= len(words) <= most:
        fix = "split a sentence into a list, and choose a short one"
        raise invalid(argument, f"a list of 1 to {most} words", repr(words), fix)
    for word in words:
        if not 1 <= len(word) <= letters:
            fix = "longer ones would leave their box"
            raise invalid(argument, f"words of 1 to {letters} letters", repr(word), fix)


# --- Teacher forcing --------------------------------------------------------------------------

WIDE, TALL = 54.0, 26.0  # a word's box
STEP = WIDE + 10  # from one position to the next


def teacher_forcing(source: Sequence[str], target: Sequence[str]) -> Drawing:
    """Training, where each position is given the correct words; generating, where it is not."""
    check_words("source", source, 7, 12)
    check_words("target", target, 5, 6)
    given, wanted = ["<bos>", *target], [*target, "<eos>"]
    steps = [given[: length + 1] for length in range(min(3, len(given)))]
    pairs = ", ".join(f"{a} must predict {b}" for a, b in zip(given, wanted, strict=True))
    written = "; ".join(
        f"from {' '.join(inputs)} comes {wanted[number]}" for number, inputs in enumerate(steps)
    )
    words = (
        "Two halves. Top, training, all at once: the decoder gets the encoder's memory of "
        f"“{' '.join(source)}” and below it all the correct words, {' '.join(given)}. Above it "
        f"stands what each position must predict, the same shifted by one: {pairs}. Bottom, "
        "generating, one step at a time, with each predicted word an input of the next step: "
        f"{written}{' and so on' if len(steps) < len(given) else ''}, until <eos>."
    )
    drawing = Drawing(words, 660, 478)
    training(drawing, source, given, wanted)
    drawing.line([(20, 244), (640, 244)], opacity=0.25)
    generating(drawing, steps, wanted)
    return drawing


def word(drawing: Drawing, x: float, y: float, name: str, colour: str) -> None:
    """A word in a box around x, from y down."""
    drawing.box(x - WIDE / 2, y, WIDE, TALL, name, GREY if name == "<bos>" else colour, kind="mono")


def training(
    drawing: Drawing, source: Sequence[str], given: Sequence[str], wanted: Sequence[str]
) -> None:
    drawing.text(330, 22, "training: all at once", "title")
    wide = max(64.0, LETTER * max(map(len, source)) + 16)
    top = 132 - 12 * len(source)
    for number, name in enumerate(source):
        drawing.box(22, top + 24 * number, wide, 20, name, fill=0.3, kind="mono")
    drawing.text(22 + wide / 2, top + 24 * len(source) + 14, "memory", "small")
    left = 172.0
    right = left + STEP * len(given) + 6
    drawing.arrow((22 + wide + 6, 130), (left - 2, 130), GREY, 2.5)
    drawing.box(left, 108, right - left, 44, "decoder", PURPLE)
    for number, (under, over) in enumerate(zip(given, wanted, strict=True)):
        x = left + 8 + WIDE / 2 + STEP * number
        drawing.arrow((x, 182), (x, 154))
        word(drawing, x, 182, under, GREEN)
        drawing.arrow((x, 106), (x, 80))
        word(drawing, x, 52, over, GREEN)
    drawing.text(right + 10, 69, "must predict", "small start")
    drawing.text(right + 10, 199, "is given", "small start")
    middle = (left + right) / 2
    drawing.text(middle, 228, "the correct words, whatever it would have predicted", "small")


def generating(drawing: Drawing, steps: Sequence[Sequence[str]], wanted: Sequence[str]) -> None:
    drawing.text(330, 272, "generating: one step at a time", "title")
    small, gap = WIDE + 4, 50.0
    whole = sum(small * len(inputs) + 4 for inputs in steps) + gap * len(steps) + 62
    left = (660 - whole) / 2
    for number, inputs in enumerate(steps):
        right = left + small * len(inputs) + 4
        newest = right - 4 - WIDE / 2
        drawing.box(left, 356, right - left, 34, "decoder", PURPLE, kind="small")
        for place, name in enumerate(inputs):
            x = left + 4 + WIDE / 2 + small * place
            drawing.arrow((x, 414), (x, 392))
            word(drawing, x, 414, name, ORANGE)
        drawing.arrow((newest, 354), (newest, 332))
        word(drawing, newest, 304, wanted[number], ORANGE)
        turn, start = right + gap / 2, (newest + WIDE / 2, 317.0)
        if number + 1 < len(steps):
            goal = right + gap + small * (len(inputs) + 1) - WIDE / 2
            way = [start, (turn, 317.0), (turn, 454.0), (goal, 454.0), (goal, 442.0)]
            drawing.line(way, ORANGE, 2, arrow=True)
        elif len(steps) < len(wanted):
            drawing.arrow(start, (turn + 6, 317), ORANGE, 2)
            drawing.text(turn + 12, 321, "… until <eos>", "small start")
        left = right + gap
    drawing.text(
        330,
        472,
        "each word it predicts is its next input; every step reads the same memory",
        "small",
    )


# --- The cache --------------------------------------------------------------------------------


def growing_cache(tokens: Sequence[str]) -> Drawing:
    """Keys and values that are kept from step to step, and how much that saves."""
    check_words("tokens", tokens, 5, 7)
    total = len(tokens) * (len(tokens) + 1) // 2
    rows = "; ".join(
        f"step {new + 1} computes {name} and keeps {' '.join(tokens[:new]) or 'nothing yet'}"
        for new, name in enumerate(tokens)
    )
    words = (
        "A row per step. Each shows boxes with the keys and values of all positions so far, the "
        "kept ones pale blue, the new one orange, and one query, that of the newest position, with "
        f"a line to every key: {rows}. Beside them, positions computed: without a cache "
        f"{', '.join(str(n + 1) for n in range(len(tokens)))}, together {total}, which is "
        f"T(T + 1)/2; with a cache 1 in every step, together {len(tokens)}, which is T."
    )
    bottom = 88 + 62 * len(tokens)
    drawing = Drawing(words, 660, bottom + 72)
    drawing.text(228, 22, "keys and values, and the newest query", "title")
    drawing.text(556, 22, "positions computed", "title")
    drawing.text(506, 44, "without a cache", "small")
    drawing.text(612, 44, "with it", "small")
    for new in range(len(tokens)):
        step(drawing, 66 + 62 * new, tokens[: new + 1])
    drawing.line([(456, bottom - 14), (646, bottom - 14)], opacity=0.4)
    drawing.text(440, bottom + 8, "total", "end")
    drawing.text(532, bottom + 8, str(total), "title")
    drawing.text(618, bottom + 8, str(len(tokens)), "title")
    drawing.text(532, bottom + 28, "T(T + 1)/2", "small")
    drawing.text(618, bottom + 28, "T", "small")
    for x, name, colour, fill in ((70, "kept", BLUE, 0.18), (150, "computed now", ORANGE, 0.45)):
        drawing.box(x, bottom + 36, 20, 16, colour=colour, fill=fill)
        drawing.text(x + 28, bottom + 48, name, "small start")
    drawing.circle(293, bottom + 44, 9, ORANGE, 0.25)
    drawing.text(310, bottom + 48, "q: the query", "small start")
    return drawing


def step(drawing: Drawing, y: float, tokens: Sequence[str]) -> None:
    """One row from y down: boxes, the query's lines to all of them, and the counts."""
    count = len(tokens)
    query = (98 + 62.0 * (count - 1), y + 8)  # above the box of its own token
    drawing.text(14, y + 38, f"step {count}", "small start")
    for number, name in enumerate(tokens):
        x, newest = 70 + 62 * number, number + 1 == count
        drawing.line([query, (x + 28, y + 22)], ORANGE, 1.2)
        colour, fill = (ORANGE, 0.45) if newest else (BLUE, 0.18)
        drawing.box(x, y + 22, 56, 26, name, colour, fill, "mono")
        drawing.circle(x + 28, y + 22, 3, ORANGE)
        drawing.cell(464 + 11 * number, y + 29, 9, 0.6, GREY)
    drawing.circle(query[0], query[1] - 11, 11, ORANGE, 0.25)
    drawing.text(query[0], query[1] - 7, "q")
    drawing.text(532, y + 38, str(count))
    drawing.cell(594, y + 29, 9, 0.9, ORANGE)
    drawing.text(618, y + 38, "1")

"""What happens inside a layer: the residual stream, layer norm, and how ReLU bends a plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from unmasked.errors import check_type, invalid, shape
from unmasked_book.schematics.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, YELLOW, Drawing

Point = tuple[float, float]


class Plane(NamedTuple):
    """Where a plane lies in a drawing: its origin, and how long one unit is there."""

    x: float
    y: float
    unit: float

    def at(self, point: Point) -> Point:
        return self.x + self.unit * point[0], self.y - self.unit * point[1]


def written(numbers: Sequence[float], digits: int | None = None) -> str:
    """(1, −2, 0.5): as short as they are, or all with as many digits after the point."""
    kind = "g" if digits is None else f".{digits}f"
    rounded = (round(number, 6 if digits is None else digits) + 0.0 for number in numbers)
    return f"({', '.join(f'{number:{kind}}' for number in rounded)})".replace("-", "−")


# --- The residual stream ----------------------------------------------------------------------

STREAM_WORDS = (
    "One layer twice, from bottom to top, each as a thick line, the residual stream, that starts "
    "at x, the token's vector. Two sublayers branch off to the side, first attention, then "
    "feed-forward, and what they find is added back to the line. Left, post-norm, as in the paper: "
    "after each addition a norm sits on the line itself, two in every layer. Right, pre-norm, as "
    "in most large language models since GPT-2: each norm sits on the branch, before its sublayer, "
    "and nothing interrupts the line until the last norm, at the very top of the N layers."
)
SIDE = 126.0  # from the stream to its branch
BRANCHES = (486.0, 294.0)  # where the sublayers leave the stream, from bottom to top
SUBLAYERS = (("attention", BLUE), ("feed-forward", GREEN))
RETURN = 116.0  # so much higher they are added back


def residual_stream() -> Drawing:
    """Post-norm and pre-norm: where the norm sits, and which line stays whole."""
    drawing = Drawing(STREAM_WORDS, 660, 574)
    post_norm(drawing, 112)
    pre_norm(drawing, 112 + 334)
    return drawing


def post_norm(drawing: Drawing, x: float) -> None:
    column(drawing, x, "post-norm", "the paper", "every norm sits on the line")
    bottom = 522.0
    for y in BRANCHES:
        norm = y - RETURN - 48
        drawing.line([(x, bottom), (x, norm + 26)], GREY, 6)
        drawing.box(x - 42, norm, 84, 26, "norm", YELLOW, 0.3)
        bottom = norm
    drawing.line([(x, bottom), (x, 64)], GREY, 6)
    for y, (name, colour) in zip(BRANCHES, SUBLAYERS, strict=True):
        branch(drawing, x, y, name, colour, normed=False)


def pre_norm(drawing: Drawing, x: float) -> None:
    note = "nothing interrupts the line until the last norm"
    column(drawing, x, "pre-norm", "most large language models since GPT-2", note)
    drawing.line([(x, 522), (x, 108)], GREY, 6)
    drawing.box(x - 42, 82, 84, 26, "last norm", YELLOW, 0.3)
    drawing.line([(x, 82), (x, 64)], GREY, 6)
    for y, (name, colour) in zip(BRANCHES, SUBLAYERS, strict=True):
        branch(drawing, x, y, name, colour, normed=True)


def column(drawing: Drawing, x: float, name: str, who: str, note: str) -> None:
    """What both halves share: their words, and the bracket around what is repeated."""
    middle = x + 53
    drawing.text(middle, 20, name, "title")
    drawing.text(middle, 38, who, "small")
    drawing.text(x, 542, "x, the token's vector")
    drawing.text(middle, 566, note)
    drawing.line([(x - 8, 69), (x, 60), (x + 8, 69)], GREY, 5)
    drawing.circle(x, 522, 5, GREY)
    left, top, bottom = x - 62, 122.0, 504.0
    edge = [(left + 8, top), (left, top), (left, bottom), (left + 8, bottom)]
    drawing.line(edge, opacity=0.6)
    drawing.text(left - 20, (top + bottom) / 2 + 4, "N ×", "title")


def branch(drawing: Drawing, x: float, y: float, name: str, colour: str, normed: bool) -> None:
    """From the stream at x, y aside, up through a sublayer, and back to where it is added."""
    side, back = x + SIDE, y - RETURN
    sublayer = back + (24 if normed else 42)
    lower = y - 16 if normed else sublayer + 32
    drawing.line([(x, y), (side, y), (side, lower)], arrow=True)
    drawing.circle(x, y, 6, GREY)
    if normed:
        drawing.box(side - 42, lower - 26, 84, 26, "norm", YELLOW, 0.3)
        drawing.arrow((side, lower - 26), (side, sublayer + 32))
    drawing.box(side - 58, sublayer, 116, 32, name, colour, 0.28)
    drawing.line([(side, sublayer), (side, back), (x + 12, back)], arrow=True)
    drawing.circle(x, back, 11, GREY)
    drawing.line([(x - 6, back), (x + 6, back)], "#ffffff", 2)
    drawing.line([(x, back - 6), (x, back + 6)], "#ffffff", 2)


# --- Layer norm -------------------------------------------------------------------------------

BASIS = torch.tensor([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]], dtype=torch.float64)
BASIS = BASIS / BASIS.norm(dim=1, keepdim=True)  # of the plane of vectors with mean zero
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, GREY)
REACH = 128.0  # how far the longest arrow goes


def layer_norm(points: Tensor) -> Drawing:
    """Vectors of three numbers [n, 3], seen in the plane of mean zero: then on its circle."""
    check_type("points", points, Tensor)
    if points.dim() != 2 or points.shape[1] != 3 or not len(points):
        fix = "each row is a vector with three numbers"
        raise invalid("points", "at least one row of three, [n, 3]", shape(points), fix)
    given = points.detach().double().cpu()
    centred = given - given.mean(dim=1, keepdim=True)
    deviation = centred.pow(2).mean(dim=1, keepdim=True).sqrt()
    if not (deviation > 1e-6).all():
        fix = "what is the same everywhere has no direction left when its mean is gone"
        raise invalid("points", "finite numbers that differ within each row", given.tolist(), fix)
    normed = centred / deviation
    lengths = centred.norm(dim=1)
    unit = REACH / max(float(lengths.max()), math.sqrt(3))
    said = ", ".join(
        f"{written(row)} of length {length:.2f}"
        for row, length in zip(given.tolist(), lengths.tolist(), strict=True)
    )
    words = (
        "Two views straight onto the plane of all vectors of three numbers whose mean is zero. "
        "In a corner three small arrows show where the first, second and third number pull. "
        f"Left, vectors without their mean, as arrows of different lengths: {said}. Right, the "
        "same divided by their standard deviation: every arrow keeps its direction and ends on a "
        f"circle of radius √3: {', '.join(written(row, 2) for row in normed.tolist())}."
    )
    drawing = Drawing(words, 660, 376)
    left, right = Plane(165, 184, unit), Plane(495, 184, unit)
    names = [written(row) for row in given.tolist()]
    arrows(drawing, left, centred, names, "minus the mean")
    drawing.ring(right.x, right.y, round(math.sqrt(3) * unit, 1), GREY, 1.5)
    arrows(drawing, right, normed, names, "divided by the standard deviation")
    spokes(drawing, Plane(270, 78, 24))
    drawing.text(165, 362, "the plane of mean zero, seen face-on", "small")
    drawing.text(495, 362, "all end on the circle of radius √3", "small")
    return drawing


def arrows(drawing: Drawing, plane: Plane, vectors: Tensor, names: list[str], title: str) -> None:
    """Vectors of mean zero in their plane, each with the name of what it came from."""
    drawing.text(plane.x, 20, title, "title")
    drawing.box(plane.x - 155, 34, 310, 306, fill=0.06)
    for number, (vector, name) in enumerate(zip(vectors, names, strict=True)):
        across, up = (BASIS @ vector).tolist()
        x, y = plane.at((across, up))
        drawing.arrow((plane.x, plane.y), (x, y), COLOURS[number % len(COLOURS)], 2.5)
        half, length = 2.9 * len(name), math.hypot(across, up)
        aside = x + (half + 8) * across / length
        aside = min(max(aside, plane.x - 152 + half), plane.x + 152 - half)
        drawing.text(aside, y - 14 * up / length + 4, name, "small")
    drawing.circle(plane.x, plane.y, 3, GREY)


def spokes(drawing: Drawing, plane: Plane) -> None:
    """Where each of the three numbers pulls."""
    for axis, name in zip(BASIS.T.tolist(), ("1st", "2nd", "3rd"), strict=True):
        drawing.line([(plane.x, plane.y), plane.at((axis[0], axis[1]))], opacity=0.6, arrow=True)
        x, y = plane.at((1.65 * axis[0], 1.65 * axis[1]))
        drawing.text(x, y + 4, name, "small")


# --- ReLU -------------------------------------------------------------------------------------

CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))
PLANE_WORDS = (
    "Exclusive or by hand, in three planes from left to right. Left, the input: the points (0, 1) "
    "and (1, 0), whose answer is 1, filled, and (0, 0) and (1, 1), whose answer is 0, hollow. A "
    "dashed line cuts off (0, 0) but leaves (1, 1) on the wrong side: no straight line separates "
    "them. Middle, after W₁ and b₁, before ReLU: h₁ = x₁ + x₂ and h₂ = x₁ + x₂ − 1 put them on one "
    "line: (0, −1) hollow, (1, 0) filled, twice, and (2, 1) hollow. Right, after ReLU: (0, 0), "
    "(1, 0) and (2, 1): the line is bent, and h₁ − 2h₂ is 1 for the filled and 0 for the hollow "
    "points, so that the straight line h₁ − 2h₂ = ½ separates them."
)


def bent_plane() -> Drawing:
    """XOR by hand: four points that no line separates, until ReLU bends their plane."""
    drawing = Drawing(PLANE_WORDS, 660, 300)
    before = [(a + b, a + b - 1) for a, b in CORNERS]
    after = [(max(0, a), max(0, b)) for a, b in before]
    entrance, hidden, bent = Plane(38, 176, 92), Plane(268, 140, 58), Plane(496, 140, 58)
    for plane, title, names, (left, right, down, up) in (
        (entrance, "the input", ("x₁", "x₂"), (0.24, 1.36, 0.45, 1.36)),
        (hidden, "before ReLU: a line", ("h₁", "h₂"), (0.4, 2.65, 1.45, 1.45)),
        (bent, "after ReLU: bent", ("h₁", "h₂"), (0.4, 2.65, 1.45, 1.45)),
    ):
        axes(drawing, plane, names, (left, right, down, up))
        drawing.text(plane.at(((right - left) / 2, 0))[0], 20, title, "title")
    drawing.line([entrance.at((-0.24, 0.74)), entrance.at((0.92, -0.42))], dashed=True)
    drawing.line([hidden.at((-0.4, -1.4)), hidden.at((2.4, 1.4))], GREY, 5, opacity=0.5)
    drawing.line([bent.at((0, 0)), bent.at((1, 0)), bent.at((2.4, 1.4))], GREY, 5, opacity=0.5)
    drawing.line([bent.at((-0.4, -0.45)), bent.at((2.45, 0.975))], width=2)
    for plane, points in ((entrance, CORNERS), (hidden, before), (bent, after)):
        for point, corner in sorted(set(zip(points, CORNERS, strict=True))):
            mark(drawing, plane.at(point), sum(corner) == 1)
    notes(drawing, entrance, hidden, bent)
    return drawing


def axes(
    drawing: Drawing, plane: Plane, names: tuple[str, str], reach: tuple[float, float, float, float]
) -> None:
    """The two axes, so far to the left, right, down and up."""
    left, right, down, up = reach
    drawing.line([plane.at((-left, 0)), plane.at((right, 0))], opacity=0.4, arrow=True)
    drawing.line([plane.at((0, -down)), plane.at((0, up))], opacity=0.4, arrow=True)
    x, y = plane.at((right, 0))
    drawing.text(x - 2, y + 17, names[0])
    x, y = plane.at((0, up))
    drawing.text(x + 16, y + 8, names[1])


def mark(drawing: Drawing, spot: Point, answer: bool) -> None:
    if answer:
        drawing.circle(*spot, 7, ORANGE)
    else:
        drawing.ring(*spot, 6, BLUE, 3)


def notes(drawing: Drawing, entrance: Plane, hidden: Plane, bent: Plane) -> None:
    """The words beside the points, between the planes and below them."""
    for plane, point, right, down, words in (
        (entrance, (0, 0), 26, 20, "(0, 0)"),
        (entrance, (0, 1), 27, 5, "(0, 1)"),
        (entrance, (1, 0), 0, -14, "(1, 0)"),
        (entrance, (1, 1), 0, -14, "(1, 1)"),
        (entrance, (1, 1), 0, 22, "wrong side"),
        (hidden, (0, -1), 34, 8, "(0, −1)"),
        (hidden, (1, 0), 40, 18, "(1, 0) twice"),
        (hidden, (2, 1), -28, 0, "(2, 1)"),
        (bent, (0, 0), 30, -20, "answer 0"),
        (bent, (1, 0), 6, 24, "answer 1, twice"),
        (bent, (2, 1), -16, -14, "answer 0"),
    ):
        x, y = plane.at(point)
        drawing.text(x + right, y + down, words, "small")
    for x, name in ((204, "W₁, b₁"), (443, "ReLU")):
        drawing.arrow((x - 20, 70), (x + 20, 70), width=2)
        drawing.text(x, 60, name)
    for x, first, second in (
        (92, "filled: answer 1, hollow: 0", "no straight line separates them"),
        (333, "h₁ = x₁ + x₂", "h₂ = x₁ + x₂ − 1"),
        (561, "the cut h₁ − 2h₂ = ½", "separates them"),
    ):
        drawing.text(x, 262, first, "small")
        drawing.text(x, 280, second, "small")

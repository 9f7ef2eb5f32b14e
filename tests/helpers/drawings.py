"""What stands in a drawing: its shapes, its words, and where its lines lead."""

from xml.etree import ElementTree

from unmasked_book.schematics.drawing import Drawing

Element = ElementTree.Element


def shapes(drawing: Drawing, kind: str, **attributes: str) -> list[Element]:
    found = ElementTree.fromstring(drawing.svg()).iter(f"{{http://www.w3.org/2000/svg}}{kind}")
    wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
    return [s for s in found if all(s.get(name) == value for name, value in wanted.items())]


def texts(drawing: Drawing, **attributes: str) -> list[str]:
    return ["".join(text.itertext()) for text in shapes(drawing, "text", **attributes)]


def numbers(shape: Element, *names: str) -> tuple[float, ...]:
    return tuple(float(shape.get(name, "")) for name in names)


def lines(drawing: Drawing, **attributes: str) -> list[list[tuple[float, ...]]]:
    found = [line.get("points", "").split() for line in shapes(drawing, "polyline", **attributes)]
    return [[tuple(map(float, pair.split(","))) for pair in line] for line in found]

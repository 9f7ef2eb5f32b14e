"""The clocks of chapter 2 in a browser: their numbers are those of the package's sinusoids."""

import re
from collections.abc import Iterator
from itertools import product

import pytest
import torch
from playwright.sync_api import Browser, Locator, expect

from helpers.visit import alone, faults_on_a_phone
from unmasked.positions import sinusoids
from unmasked_book.live import explore_positions


@pytest.fixture
def positions(browser: Browser) -> Iterator[Locator]:
    with alone(browser, explore_positions(12, 3).html()) as element:
        element.locator("summary").click()
        yield element


def move(element: Locator, position: int, offset: int) -> None:
    element.get_by_label("Position p").fill(str(position))
    element.get_by_label("Offset δ").fill(str(offset))
    expect(element.locator("th", has_text="PE(").last).to_have_text(f"PE({position + offset})")


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def agree(element: Locator, width: int, position: int, offset: int) -> None:
    """Table and sum hold what the package computes."""
    rows = element.locator("table tr").all()[1:]
    numbers = [[number(n) for n in row.locator("td").all_inner_texts() if n] for row in rows]
    here, there = (sinusoids(p, 1, width)[0] for p in (position, position + offset))
    expected = torch.stack([here, there, here * there], dim=1).tolist()
    assert torch.allclose(torch.tensor(numbers[:-1]), torch.tensor(expected), atol=0.000501)
    dot = float(here @ there)
    assert numbers[-1] == pytest.approx([dot], abs=0.000501)
    equation = element.locator("p", has_text=f"PE({position}) · PE({position + offset}) = ")
    assert number(equation.inner_text().split(" = ")[-1]) == pytest.approx(dot, abs=0.000501)


def turns(element: Locator) -> list[list[tuple[float, float]]]:
    """Where the two hands of each clock point, as [sine, cosine] each."""
    points = "lines => lines.map(line => line.getAttribute('points'))"
    ends = []
    for name in ("here", "there"):
        hands = element.locator(f"polyline.up-{name}").evaluate_all(points)
        pairs = [re.split("[ ,]", hand)[2:] for hand in hands]
        ends.append([(float(x), -float(y)) for x, y in pairs])
    return ends


def test_its_numbers_are_the_packages(positions: Locator):
    for width, (position, offset) in product((8, 16), ((12, 3), (0, 0), (100, 50))):
        positions.get_by_label(str(width), exact=True).check()
        expect(positions.locator("figure")).to_have_count(width // 2)
        move(positions, position, offset)
        agree(positions, width, position, offset)
        for hands, place in zip(turns(positions), (position, position + offset), strict=True):
            row = sinusoids(place, 1, width).view(-1, 2)
            assert torch.allclose(torch.tensor(hands, dtype=torch.float64), row, atol=1e-6)


def test_a_hand_can_be_dragged(positions: Locator):
    """The second hand turns by 0.1 at each step: a quarter turn is 15.7 positions."""
    move(positions, 0, 3)
    mouse = positions.page.mouse
    box = positions.locator("figure svg").nth(1).bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    radius = box["width"] / 2.6

    def drag(*places: tuple[float, float]) -> None:
        for x, y in places:
            mouse.move(middle[0] + radius * x, middle[1] + radius * y)

    drag((0, -1))
    mouse.down()
    drag((0.7, -0.7), (1, 0))
    mouse.up()
    drag((0, 1))  # let go: nothing moves any more
    assert positions.get_by_label("Position p").input_value() == "16"
    expect(positions.locator("th", has_text="PE(").first).to_have_text("PE(16)")
    agree(positions, 8, 16, 3)


def test_the_keyboard_alone_is_enough_also_on_a_phone(positions: Locator):
    positions.get_by_label("Position p").focus()
    for key in ("ArrowRight", "Tab", "ArrowRight", "ArrowRight", "Tab", "ArrowRight"):
        positions.page.keyboard.press(key)
    expect(positions.locator("figure")).to_have_count(8)
    agree(positions, 16, 13, 5)
    move(positions, 100, 50)
    assert faults_on_a_phone(positions.page) == []

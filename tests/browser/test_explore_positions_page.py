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
        yield element


def move(element: Locator, position: int, offset: int) -> None:
    element.get_by_label("Position p").fill(str(position))
    element.get_by_label("Offset δ").fill(str(offset))
    expect(element).to_contain_text(f"PE({position}) · PE({position + offset}) = ")


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def agree(element: Locator, width: int, position: int, offset: int) -> None:
    """The sum is what the package computes."""
    here, there = (sinusoids(p, 1, width)[0] for p in (position, position + offset))
    dot = float(here @ there)
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


def test_the_keyboard_alone_is_enough_also_on_a_phone(positions: Locator):
    positions.get_by_label("Position p").focus()
    for key in ("ArrowRight", "Tab", "ArrowRight", "ArrowRight", "Tab", "ArrowRight"):
        positions.page.keyboard.press(key)
    expect(positions.locator("figure")).to_have_count(8)
    agree(positions, 16, 13, 5)
    move(positions, 100, 50)
    assert faults_on_a_phone(positions.page) == []

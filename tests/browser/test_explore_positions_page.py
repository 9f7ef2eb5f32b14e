"""The clocks of chapter 2 show the numbers of the package's sinusoids."""

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


def agree(element: Locator, width: int, position: int, offset: int) -> None:
    """Fails unless the dot product and both hands of each clock are what the package computes."""
    rows = {"here": sinusoids(position, 1, width), "there": sinusoids(position + offset, 1, width)}
    equation = element.locator("p", has_text=f"PE({position}) · PE({position + offset}) = ")
    shown = equation.inner_text().split(" = ")[-1].replace("−", "-")
    assert float(shown) == pytest.approx(float(rows["here"] @ rows["there"].T), abs=0.000501)
    expect(element.locator("figure")).to_have_count(width // 2)
    points = "lines => lines.map(line => line.getAttribute('points'))"
    for name, row in rows.items():
        hands = element.locator(f"polyline.up-{name}").evaluate_all(points)
        ends = [[float(number) for number in re.split("[ ,]", hand)[2:]] for hand in hands]
        upwards = torch.tensor(ends, dtype=torch.float64) * torch.tensor([1.0, -1.0])
        assert torch.allclose(upwards, row.view(-1, 2), atol=1e-6)


def test_its_numbers_are_the_packages(positions: Locator):
    for width, (position, offset) in product((8, 16), ((12, 3), (0, 0), (100, 50))):
        positions.get_by_label(str(width), exact=True).check()
        move(positions, position, offset)
        agree(positions, width, position, offset)


def test_the_keyboard_alone_is_enough_also_on_a_phone(positions: Locator):
    positions.get_by_label("Position p").focus()
    for key in ("ArrowRight", "Tab", "ArrowRight", "ArrowRight", "Tab", "ArrowRight"):
        positions.page.keyboard.press(key)
    agree(positions, 16, 13, 5)
    move(positions, 100, 50)
    assert faults_on_a_phone(positions.page) == []

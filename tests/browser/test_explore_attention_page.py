"""The square root of chapter 3 in a reader's hand: the numbers are those of the package."""

import math
from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch
from playwright.sync_api import Browser, Locator, expect

from helpers.alone import alone
from helpers.visit import faults_of_access, overflow
from unmasked.attention import masked_softmax
from unmasked_book.live import explore_attention

SCORES = [1.37, 1.67, 0.82, -0.05, 0.22, -0.71, -1.75, -0.27]


@pytest.fixture
def root(browser: Browser) -> Iterator[Locator]:
    with alone(browser, explore_attention(SCORES)) as element:
        yield element


def numbers(root: Locator, row: int) -> list[float]:
    texts = root.locator(".unmasked-bars").nth(row).locator("small").all_inner_texts()
    return [float(text.replace("−", "-")) for text in texts]


def measures(width: int, *, divided: bool) -> tuple[list[float], float, float]:
    """Weights, entropy in bits and slope, by the package."""
    scores = torch.tensor(SCORES, dtype=torch.float64)
    weights = masked_softmax(scores if divided else scores * math.sqrt(width))
    entropy = torch.special.entr(weights).sum().item() / math.log(2)
    return weights.tolist(), entropy, (weights * (1 - weights)).sum().item()


def test_weights_entropy_and_slope_are_those_of_the_package(root: Locator):
    for divided in (True, False):
        root.get_by_role("checkbox").set_checked(divided)
        for power in (0, 3, 6, 10):
            root.get_by_role("slider").fill(str(power))
            width = 2**power
            weights, entropy, slope = measures(width, divided=divided)
            expect(root.get_by_role("status")).to_have_text(
                f"Width {width}, {'divided' if divided else 'not divided'}: entropy {entropy:.2f} "
                f"of 3.00 bits, slope {slope:.2f}. The largest weight is {max(weights):.2f}."
            )
            assert numbers(root, 2) == pytest.approx(weights, abs=0.005)
            raw = [score * math.sqrt(width) for score in SCORES]
            assert numbers(root, 0) == pytest.approx(raw, abs=0.05)
            assert numbers(root, 1) == pytest.approx(SCORES if divided else raw, abs=0.05)


def test_bars_are_as_long_as_their_numbers_and_fade_beyond_the_picture(root: Locator):
    def heights(row: int) -> list[float]:
        bars = root.locator(".unmasked-bars").nth(row).locator("span")
        return bars.evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")

    weights = numbers(root, 2)
    unit = max(heights(2)) / max(weights)
    assert heights(2) == pytest.approx([unit * weight for weight in weights], abs=0.6)
    half = max(heights(0))
    assert heights(1) == pytest.approx([half * abs(s) / 3 / 1.75 for s in SCORES], abs=0.6)
    assert root.locator(".up, .down").count() == 5  # of 8 times as much, what exceeds 3 times
    root.get_by_role("slider").fill("0")
    root.page.wait_for_function("document.querySelectorAll('.up, .down').length === 0")


def test_the_curves_fall_without_the_division_and_stay_with_it(root: Locator):
    points = root.locator("polyline").evaluate_all(
        "all => all.map(e => [...e.points].map(p => p.y))"
    )
    assert len(points) == 4
    for divided, raw in (points[:2], points[2:]):
        assert len(set(divided)) == 1
        assert all(a <= b for a, b in pairwise(raw))  # downwards
        assert raw[0] == divided[0]
    labels = [image.get_attribute("aria-label") for image in root.get_by_role("img").all()]
    entropies = [measures(width, divided=False)[1] for width in (1, 1024)]
    assert labels[0] == (
        f"entropy {entropies[0]:.2f} of 3.00 bits. At any width it is {entropies[0]:.2f} if "
        f"divided; if not, it falls to {entropies[1]:.2f} at 1024."
    )


def test_the_keyboard_alone_is_enough(root: Locator):
    said = root.get_by_role("status")
    root.page.keyboard.press("Tab")
    root.page.keyboard.press("ArrowRight")
    assert root.get_by_role("slider").get_attribute("aria-valuetext") == "128"
    root.page.keyboard.press("Tab")
    root.page.keyboard.press("Space")
    expect(said).to_contain_text("Width 128, not divided: ")
    root.page.keyboard.press("Tab")
    root.page.keyboard.press("Enter")
    lines = root.locator("li").all_inner_texts()
    weights = measures(128, divided=False)[0]
    assert lines[0] == f"score {SCORES[0] * math.sqrt(128):.2f}, weight {weights[0]:.3f}"
    assert len(lines) == 8


def test_it_fits_a_phone_and_is_accessible(browser: Browser, theme: str):
    with alone(browser, explore_attention(SCORES), 390, theme) as root:
        root.get_by_role("slider").fill("10")
        root.get_by_role("checkbox").uncheck()
        root.locator("summary").click()
        expect(root.get_by_role("status")).to_contain_text("Width 1024, not divided")
        assert overflow(root.page) <= 0
        clipped = root.locator(".unmasked-bars small").evaluate_all(
            "all => all.filter(e => e.scrollWidth > e.clientWidth).length"
        )
        assert clipped == 0
        assert faults_of_access(root.page, ".unmasked-live") == []

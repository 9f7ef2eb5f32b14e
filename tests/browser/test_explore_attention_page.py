"""The square root of chapter 3 in a reader's hand: the numbers are those of the package."""

import math
from collections.abc import Iterator

import pytest
import torch
from playwright.sync_api import Browser, Locator, expect

from helpers.visit import alone, faults_on_a_phone
from unmasked.attention import masked_softmax
from unmasked_book.live import explore_attention

SCORES = [1.37, 1.67, 0.82, -0.05, 0.22, -0.71, -1.75, -0.27]


@pytest.fixture
def root(browser: Browser) -> Iterator[Locator]:
    with alone(browser, explore_attention(SCORES).html()) as element:
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
    for power, divided in ((0, True), (10, True), (3, False)):
        root.get_by_role("checkbox").set_checked(divided)
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


def test_bars_show_their_numbers(root: Locator):
    lengths = "all => all.map(e => parseFloat(e.style.height))"  # in percent of the picture
    raw, divided, weights = (
        root.locator(".unmasked-bars").nth(row).locator("span").evaluate_all(lengths)
        for row in range(3)
    )
    shares = [abs(score) / max(map(abs, SCORES)) for score in SCORES]
    assert weights == pytest.approx([100 * weight for weight in numbers(root, 2)], abs=0.51)
    assert divided == pytest.approx([50 * share / 3 for share in shares], abs=0.01)
    assert raw == pytest.approx([min(50, 50 * 8 * share / 3) for share in shares], abs=0.01)


def test_the_keyboard_alone_is_enough_and_a_phone_wide_enough(root: Locator):
    for key in ("Tab", "ArrowRight", "Tab", "Space", "Tab", "Enter"):
        root.page.keyboard.press(key)
    assert root.get_by_role("slider").get_attribute("aria-valuetext") == "128"
    expect(root.get_by_role("status")).to_contain_text("Width 128, not divided: ")
    weight = measures(128, divided=False)[0][0]
    first = root.locator("li").first
    expect(first).to_have_text(f"score {SCORES[0] * math.sqrt(128):.2f}, weight {weight:.3f}")
    assert faults_on_a_phone(root.page) == []

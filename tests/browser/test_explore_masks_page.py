"""The masks of chapter 1 in a browser: their rules and weights are the package's."""

from collections.abc import Iterator

import pytest
import torch
from playwright.sync_api import Browser, Locator, expect
from torch import Tensor

from helpers.alone import alone
from helpers.visit import faults_of_access, overflow
from unmasked.attention import masked_softmax
from unmasked.masks import causal_mask, padding_mask
from unmasked_book.live import explore_masks

SOURCE, TARGET = ["ich", "möchte", "ein", "bier", "<eos>"], ["<bos>", "i", "want", "a", "beer"]
EXPLORED = explore_masks(SOURCE, TARGET)
SCORES = {one["name"]: torch.tensor(one["scores"]) for one in EXPLORED.data["attentions"]}


@pytest.fixture
def masks(browser: Browser) -> Iterator[Locator]:
    with alone(browser, EXPLORED) as element:
        yield element


def shown(element: Locator) -> list[list[bool]]:
    """The mask on the page."""
    script = "rows => rows.map(r => [...r.querySelectorAll('button')].map(b => b.ariaPressed))"
    rows = element.locator("tbody tr").evaluate_all(script)
    return [[pressed == "true" for pressed in row] for row in rows]


def weights(element: Locator) -> list[str]:
    return element.locator(".um-weight td").all_inner_texts()


def agree(element: Locator, name: str, mask: Tensor, past: int = 0) -> None:
    """The page shows this mask, and for each row the weights that the package computes."""
    mask = mask.expand(len(SCORES[name]) - past, -1)
    assert shown(element) == mask.tolist()
    expected = masked_softmax(SCORES[name][past:], mask)
    for row, right, allowed in zip(
        element.locator("tbody tr").all(), expected.tolist(), mask.tolist(), strict=True
    ):
        row.locator("th").hover()
        texts = weights(element)
        assert [text == "0" for text in texts] == [not may for may in allowed]
        assert [float(text) for text in texts] == pytest.approx(right, abs=0.00501)
        bars = element.locator(".um-weight td").evaluate_all(
            "cells => cells.map(cell => Number(cell.style.getPropertyValue('--weight')))"
        )
        assert bars == pytest.approx(right, abs=0.0001)


def padded(real: int) -> Tensor:
    tokens = torch.ones(1, 5, dtype=torch.long)
    tokens[0, real:] = 0
    return padding_mask(tokens)[0, 0]


def test_it_begins_with_the_decoders_mask(masks: Locator):
    agree(masks, "decoder", causal_mask(5))
    assert masks.locator("tbody th").all_inner_texts() == TARGET
    assert masks.locator("thead th").all_inner_texts()[1:] == TARGET


def test_padding_and_causality_combine_as_in_the_package(masks: Locator):
    masks.get_by_label("Real target tokens").fill("3")
    agree(masks, "decoder", padded(3) & causal_mask(5))
    assert masks.locator("tbody th").all_inner_texts() == [*TARGET[:3], "<pad>", "<pad>"]
    masks.get_by_label("Causal").uncheck()
    agree(masks, "decoder", padded(3))


def test_the_encoder_hides_padding_only(masks: Locator):
    masks.get_by_label("encoder").check()
    assert not masks.get_by_label("Causal").is_checked()
    assert not masks.get_by_label("Real target tokens").is_visible()
    masks.get_by_label("Real source tokens").fill("2")
    agree(masks, "encoder", padded(2))


def test_across_the_targets_padding_hides_nothing(masks: Locator):
    masks.get_by_label("cross-attention").check()
    masks.get_by_label("Real source tokens").fill("4")
    masks.get_by_label("Real target tokens").fill("2")
    agree(masks, "cross-attention", padded(4))
    assert masks.locator("tbody th").all_inner_texts()[2:] == ["<pad>"] * 3


@pytest.mark.parametrize("past", [1, 2, 4])
def test_with_keys_in_the_cache_only_the_queries_that_follow_are_left(masks: Locator, past: int):
    masks.get_by_label("Keys in the cache").fill(str(past))
    agree(masks, "decoder", causal_mask(5 - past, past=past), past)
    assert masks.locator("tbody th").all_inner_texts() == TARGET[past:]
    masks.get_by_label("encoder").check()
    masks.get_by_label("decoder").check()
    assert len(shown(masks)) == 5  # another attention begins anew


def test_what_a_click_hides_the_others_share(masks: Locator):
    cell = masks.get_by_label("want attends to want")
    cell.click()
    mask = causal_mask(5).clone()
    mask[2, 2] = False
    assert cell.get_attribute("title") == "hidden by hand"
    agree(masks, "decoder", mask)
    cell.click()
    agree(masks, "decoder", causal_mask(5))
    masks.get_by_label("want attends to beer").click()
    mask = causal_mask(5).clone()
    mask[2, 4] = True
    agree(masks, "decoder", mask)
    masks.get_by_label("Causal").uncheck()  # a setting makes the mask anew
    agree(masks, "decoder", torch.ones(5, 5, dtype=torch.bool))


def test_each_hidden_cell_says_why(masks: Locator):
    masks.get_by_label("Real target tokens").fill("4")
    titles = (
        masks.locator("tbody tr")
        .nth(1)
        .locator("button")
        .evaluate_all("cells => cells.map(cell => cell.title)")
    )
    future, padding = "hidden: the future", "hidden: padding"
    assert titles == ["may attend", "may attend", future, future, padding]


def test_a_fully_masked_row_is_all_zeros_and_says_so(masks: Locator):
    masks.get_by_label("<bos> attends to <bos>").click()
    assert weights(masks) == ["0"] * 5
    expect(masks.get_by_role("status")).to_have_text(
        "“<bos>” is a fully masked row: all its weights are zero, and so is its output."
    )


def test_a_row_is_told_to_those_who_cannot_see_it(masks: Locator):
    masks.locator("tbody th", has_text="want").hover()
    a, b, c, *_ = masked_softmax(SCORES["decoder"], causal_mask(5))[2].tolist()
    expect(masks.get_by_role("status")).to_have_text(
        f"“want” may attend to 3 of 5 tokens: <bos> {a:.2f}, i {b:.2f}, want {c:.2f}."
    )


def test_it_can_be_used_by_keyboard_alone(masks: Locator):
    press = masks.page.keyboard.press
    for key in ("Tab", "ArrowLeft"):  # from the decoder's mask to the encoder's
        press(key)
    assert shown(masks) == padded(5).expand(5, -1).tolist()
    for key in ("Tab", "ArrowLeft"):  # one real token less
        press(key)
    assert shown(masks) == padded(4).expand(5, -1).tolist()
    for key in ("Tab", "Space"):  # causal
        press(key)
    assert shown(masks) == (padded(4) & causal_mask(5)).tolist()
    press("Tab")  # one cell of the grid; arrows lead to the others
    assert masks.locator("tbody button[tabindex='0']").count() == 1
    here = "[document.activeElement.ariaLabel, document.activeElement.ariaPressed]"
    for _ in range(5):
        press("ArrowUp")
    assert masks.page.evaluate(here) == ["ich attends to ich", "true"]
    for key in ("ArrowDown", "End", "ArrowLeft"):
        press(key)
    assert masks.page.evaluate(here) == ["möchte attends to bier", "false"]
    press("Space")
    assert masks.page.evaluate(here) == ["möchte attends to bier", "true"]
    assert masks.locator(".um-chosen th").inner_text() == "möchte"
    assert masks.locator("tbody button[tabindex='0']").count() == 1


def test_it_takes_the_figures_place_on_the_screen_and_gives_it_back_on_paper(masks: Locator):
    figure = masks.page.locator("img")
    assert (figure.is_visible(), masks.is_visible()) == (False, True)
    masks.page.emulate_media(media="print")
    assert figure.evaluate("image => getComputedStyle(image).display") == "block"
    assert not masks.is_visible()


def test_it_fits_a_phone_and_is_accessible_in_both_themes(browser: Browser, theme: str):
    with alone(browser, EXPLORED, 390, theme) as element:
        element.get_by_label("Real target tokens").fill("4")
        element.get_by_label("want attends to i").click()
        assert faults_of_access(element.page, ".unmasked-live") == []
        assert overflow(element.page) <= 0
        element.get_by_label("cross-attention").check()
        assert faults_of_access(element.page, ".unmasked-live") == []
        assert overflow(element.page) <= 0

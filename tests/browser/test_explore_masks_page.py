"""The masks of chapter 1 in a browser: their rules and weights are the package's."""

from collections.abc import Iterator

import pytest
import torch
from playwright.sync_api import Browser, Locator, expect
from torch import Tensor

from helpers.visit import alone, faults_on_a_phone
from unmasked.attention import masked_softmax
from unmasked.masks import causal_mask, padding_mask
from unmasked_book.live import explore_masks

SOURCE, TARGET = ["ich", "möchte", "ein", "bier", "<eos>"], ["<bos>", "i", "want", "a", "beer"]
EXPLORED = explore_masks(SOURCE, TARGET)
SCORES = {one["name"]: torch.tensor(one["scores"]) for one in EXPLORED.data["attentions"]}
REAL, REAL_TARGET = "Real source tokens", "Real target tokens"
CACHED, PAD = "Keys in the cache", "<pad>"
PRESSED = "rows => rows.map(r => [...r.querySelectorAll('button')].map(b => b.ariaPressed))"
HERE = "[document.activeElement.ariaLabel, document.activeElement.ariaPressed]"


@pytest.fixture
def masks(browser: Browser) -> Iterator[Locator]:
    with alone(browser, EXPLORED.html()) as element:
        yield element


def agree(element: Locator, name: str, mask: Tensor, past: int = 0) -> None:
    """The page shows this mask, and for each row the weights that the package computes."""
    mask = mask.expand(len(SCORES[name]) - past, -1)
    rows, cells = element.locator("tbody tr"), element.locator(".um-weight td")
    pressed = rows.evaluate_all(PRESSED)
    assert [[each == "true" for each in row] for row in pressed] == mask.tolist()
    expected = masked_softmax(SCORES[name][past:], mask)
    for row, right, allowed in zip(rows.all(), expected, mask, strict=True):
        row.locator("th").hover()
        texts = cells.all_inner_texts()
        assert [text != "0" for text in texts] == allowed.tolist()
        assert [float(text) for text in texts] == pytest.approx(right.tolist(), abs=0.00501)


def padded(real: int) -> Tensor:
    tokens = torch.ones(1, 5, dtype=torch.long)
    tokens[0, real:] = 0
    return padding_mask(tokens)[0, 0]


@pytest.mark.parametrize(
    ("name", "lengths", "mask", "words"),
    [
        ("decoder", {}, causal_mask(5), TARGET),
        ("decoder", {REAL_TARGET: 3}, padded(3) & causal_mask(5), [*TARGET[:3], PAD, PAD]),
        ("decoder", {CACHED: 4}, causal_mask(1, past=4), TARGET[4:]),
        ("encoder", {REAL: 2}, padded(2), [*SOURCE[:2], PAD, PAD, PAD]),
        ("cross-attention", {REAL: 4, REAL_TARGET: 2}, padded(4), [*TARGET[:2], PAD, PAD, PAD]),
    ],
)
def test_padding_causality_and_cache_are_as_in_the_package(
    masks: Locator, name: str, lengths: dict, mask: Tensor, words: list[str]
):
    masks.get_by_label(name).check()
    for label, length in lengths.items():
        masks.get_by_label(label).fill(str(length))
    agree(masks, name, mask, lengths.get(CACHED, 0))
    assert masks.locator("tbody th").all_inner_texts() == words


def test_what_a_click_hides_the_others_share(masks: Locator):
    hidden, open_too = causal_mask(5).clone(), causal_mask(5).clone()
    hidden[2, 2], open_too[2, 4] = False, True
    cell = masks.get_by_label("want attends to want")
    cell.click()
    agree(masks, "decoder", hidden)
    cell.click()
    masks.get_by_label("want attends to beer").click()
    agree(masks, "decoder", open_too)
    masks.get_by_label("Causal").uncheck()  # a setting makes the mask anew
    agree(masks, "decoder", torch.ones(5, 5, dtype=torch.bool))
    masks.get_by_label("encoder").check()
    masks.get_by_label("decoder").check()  # another attention begins anew
    agree(masks, "decoder", causal_mask(5))


def test_cells_and_rows_are_told_to_those_who_cannot_see_them(masks: Locator):
    masks.locator("tbody th", has_text="want").hover()
    a, b, c, *_ = masked_softmax(SCORES["decoder"], causal_mask(5))[2].tolist()
    told = f"may attend to 3 of 5 tokens: <bos> {a:.2f}, i {b:.2f}, want {c:.2f}."
    expect(masks.get_by_role("status")).to_contain_text(told)
    masks.get_by_label("<bos> attends to <bos>").click()
    expect(masks.get_by_role("status")).to_contain_text("“<bos>” is a fully masked row")
    assert masks.locator(".um-weight td").all_inner_texts() == ["0"] * 5


def test_the_keyboard_alone_is_enough_and_a_phone_wide_enough(masks: Locator):
    def press(*keys: str) -> None:
        for key in keys:
            masks.page.keyboard.press(key)

    press("Tab", "ArrowLeft")  # from the decoder's mask to the encoder's
    press("Tab", "ArrowLeft")  # one real token less
    press("Tab", "Space")  # causal
    press("Tab")  # one cell of the grid; arrows lead to the others
    assert masks.locator("tbody button[tabindex='0']").count() == 1
    press(*["ArrowUp"] * 5)
    assert masks.page.evaluate(HERE) == ["ich attends to ich", "true"]
    press("ArrowDown", "End", "ArrowLeft")
    assert masks.page.evaluate(HERE) == ["möchte attends to bier", "false"]
    press("Space")
    assert faults_on_a_phone(masks.page) == []
    expected = padded(4) & causal_mask(5)
    expected[1, 3] = True
    agree(masks, "encoder", expected)

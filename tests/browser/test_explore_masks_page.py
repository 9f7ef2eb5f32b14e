"""The masks that a reader explores in chapter 1 have the package's rules and weights."""

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
PRESSED = (
    "rows => rows.map(r => [...r.querySelectorAll('button')].map(b => b.ariaPressed === 'true'))"
)


@pytest.fixture
def masks(browser: Browser) -> Iterator[Locator]:
    with alone(browser, EXPLORED.html()) as element:
        yield element


def agree(element: Locator, name: str, mask: Tensor, past: int = 0) -> None:
    """Fails unless the page shows this mask, and in each row the weights of the package."""
    mask = mask.expand(len(SCORES[name]) - past, -1)
    rows, cells = element.locator("tbody tr"), element.locator(".um-weight td")
    assert rows.evaluate_all(PRESSED) == mask.tolist()
    expected = masked_softmax(SCORES[name][past:], mask)
    for row, right, allowed in zip(rows.all(), expected, mask, strict=True):
        row.locator("th").hover()
        texts = cells.all_inner_texts()
        assert [text != "0" for text in texts] == allowed.tolist()
        assert [float(text) for text in texts] == pytest.approx(right.tolist(), abs=0.00501)


def padded(real: int) -> Tensor:
    return padding_mask(torch.tensor([[1] * real + [0] * (5 - real)]))[0, 0]


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
    expect(masks.locator("tbody th")).to_have_text(words)


def test_what_a_click_hides_the_others_share(masks: Locator):
    changed = causal_mask(5).clone()
    for key, visible in ((2, False), (2, True), (4, True)):
        masks.get_by_label(f"want attends to {TARGET[key]}").click()
        changed[2, key] = visible
        agree(masks, "decoder", changed)
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
    expect(masks.locator(".um-weight td")).to_have_text(["0"] * 5)


def test_the_keyboard_alone_is_enough_and_a_phone_wide_enough(masks: Locator):
    for keys, label, pressed in (
        # the encoder's mask, one real token less, causal; then one cell of the grid
        (
            "Tab ArrowLeft Tab ArrowLeft Tab Space Tab" + " ArrowUp" * 5,
            "ich attends to ich",
            "true",
        ),
        ("ArrowDown End ArrowLeft", "möchte attends to bier", "false"),
        ("Space", "möchte attends to bier", "true"),
    ):
        for key in keys.split():
            masks.page.keyboard.press(key)
        expect(masks.get_by_label(label)).to_be_focused()
        expect(masks.get_by_label(label)).to_have_attribute("aria-pressed", pressed)
    expect(masks.locator("tbody button[tabindex='0']")).to_have_count(1)
    assert faults_on_a_phone(masks.page) == []
    expected = padded(4) & causal_mask(5)
    expected[1, 3] = True
    agree(masks, "encoder", expected)

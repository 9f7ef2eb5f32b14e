"""The search that a reader walks through in chapter 9 finds what the package finds."""

from collections.abc import Iterator
from itertools import product

import pytest
from playwright.sync_api import Browser, Locator, expect

from helpers.visit import SIZES, alone, faults_on_a_phone
from unmasked import load
from unmasked.search import beam
from unmasked_book.live import explore_beam
from unmasked_book.live.explore import Explorable

SENTENCE = "Auf der Bank sitzt eine Frau."


@pytest.fixture(scope="module")
def figure() -> Explorable:
    return explore_beam(load("de-en"), SENTENCE)


@pytest.fixture
def tree(browser: Browser, figure: Explorable) -> Iterator[Locator]:
    with alone(browser, figure.html()) as element:
        yield element


def press(tree: Locator, *names: str) -> None:
    for name in names:
        tree.get_by_role("button", name=name).click(force=True)  # even if it says it is disabled


def test_every_width_and_penalty_finds_what_the_package_finds(tree: Locator, figure: Explorable):
    translator = load("de-en")
    source, pieces = translator.tokens([SENTENCE]), translator.target.words
    texts = set()
    for width, alpha in product(figure.data["widths"][::2], figure.data["penalties"]):
        tree.get_by_role("radio", name=str(width), exact=True).first.check()
        tree.get_by_role("radio", name=f"{alpha:g}", exact=True).last.check()
        tokens, scores = beam(translator.model, source, width, length_penalty=alpha)
        best = [token for token in tokens[0, 0].tolist() if token]
        winner = tree.locator("g.wins text:not(.number)")
        expect(winner).to_have_text(["<bos>", *(pieces[token] for token in best)])
        text = translator.target.decode(best)
        expect(tree.get_by_role("status")).to_contain_text(f"the winner is “{text}”")
        score = tree.locator("g.wins text.number").last.text_content().replace("−", "-")
        assert float(score) == pytest.approx(scores[0, 0].item(), abs=0.01)
        texts.add(text)
    assert texts == {"a woman is sitting on the bench.", "a woman sitting on the bench."}


def test_it_is_walked_through_step_by_step(tree: Locator):
    said = tree.get_by_role("status")
    expect(said).to_contain_text("Step 9 of 9: the winner is “a woman sitting on the bench.”")
    tree.locator("summary").click()
    kinds = [line.split()[-1] for line in tree.locator("li").all_inner_texts()]
    assert [kinds.count(kind) for kind in ("finished", "kept", "dropped")] == [4, 4, 3]
    press(tree, "first")
    expect(said).to_contain_text("Step 1 of 9: kept 4 beginnings, the likeliest “a” (−0.25)")
    expect(tree.locator(".unmasked-tree g")).to_have_count(1 + 8)  # a beginning, twice the width
    expect(tree.locator("g.dropped")).to_have_count(4)
    press(tree, "one step", "one step", "back")
    expect(said).to_contain_text("Step 2 of 9")
    press(tree, "to the end", "one step")  # the second of them does nothing
    expect(said).to_contain_text("Step 9 of 9")
    expect(tree.get_by_role("button", name="one step")).to_be_disabled()
    expect(tree.locator("path.wins")).to_have_count(8)


def test_the_keyboard_alone_is_enough_and_a_phone_wide_enough(tree: Locator):
    said, box = tree.get_by_role("status"), tree.locator(".unmasked-tree")
    tree.page.set_viewport_size(SIZES["narrow"])
    for key in ("Tab", "ArrowRight", "Tab", "ArrowRight"):  # the width 5 and the penalty 0.6
        tree.page.keyboard.press(key)
    expect(said).to_contain_text("Step 9 of 9: the winner is “a woman is sitting on the bench.”")
    assert box.evaluate("e => e.scrollLeft + e.clientWidth === e.scrollWidth")  # at its end
    for key, step in (("Tab", 9), ("Tab", 9), ("Enter", 8), ("Tab", 8), ("Space", 9)):
        tree.page.keyboard.press(key)
        expect(said).to_contain_text(f"Step {step} of 9")
    expect(tree.get_by_role("button", name="one step")).to_be_focused()
    tree.locator("summary").click()
    assert faults_on_a_phone(tree.page) == []

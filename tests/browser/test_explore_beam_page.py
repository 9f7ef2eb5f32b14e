"""The search of chapter 9 as a reader walks through it: the package's own results, in a browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from helpers.alone import alone
from helpers.visit import SIZES, Visit, faults_of_access, overflow
from unmasked import load
from unmasked.plots.lines import curves
from unmasked.search import beam
from unmasked_book.live import explore_beam
from unmasked_book.live.explore import Explorable

SENTENCE = "Auf der Bank sitzt eine Frau."


@pytest.fixture(scope="module")
def figure() -> Explorable:
    return explore_beam(load("de-en"), SENTENCE)


@pytest.fixture
def tree(browser: Browser, figure: Explorable) -> Iterator[Locator]:
    with alone(browser, figure) as element:
        yield element


def press(tree: Locator, *names: str) -> None:
    for name in names:
        tree.get_by_role("button", name=name).click(force=True)  # even if it says it is disabled


def winner(tree: Locator) -> list[str]:
    return tree.locator("g.wins text:not(.number)").all_text_contents()


def test_every_width_and_penalty_finds_what_the_package_finds(tree: Locator, figure: Explorable):
    translator = load("de-en")
    source, pieces = translator.tokens([SENTENCE]), translator.target.words
    texts = set()
    for width in figure.data["widths"]:
        tree.get_by_role("radio", name=str(width), exact=True).first.check()
        for alpha in figure.data["penalties"]:
            tree.get_by_role("radio", name=f"{alpha:g}", exact=True).last.check()
            tokens, scores = beam(translator.model, source, width, length_penalty=alpha)
            best = [pieces[token] for token in tokens[0, 0].tolist() if token]
            assert winner(tree) == ["<bos>", *best]
            text = translator.target.decode(tokens[0, 0].tolist())
            expect(tree.get_by_role("status")).to_contain_text(f"the winner is “{text}”")
            said = tree.locator("g.wins text.number").last.text_content().replace("−", "-")
            assert float(said) == pytest.approx(scores[0, 0].item(), abs=0.01)
            texts.add(text)
    assert texts == {"a woman is sitting on the bench.", "a woman sitting on the bench."}


def test_it_is_walked_through_step_by_step(tree: Locator):
    said, boxes = tree.get_by_role("status"), tree.locator(".unmasked-tree g")
    expect(said).to_have_text(
        "Step 9 of 9: the winner is “a woman sitting on the bench.” with score −2.10. Finished: 4."
    )
    press(tree, "first")
    expect(said).to_have_text(
        "Step 1 of 9: kept 4 beginnings, the likeliest “a” (−0.25). Finished: 0."
    )
    assert boxes.count() == 1 + 8  # the beginning, and twice the width
    assert tree.locator("g.dropped").count() == 4
    press(tree, "one step", "one step")
    expect(said).to_contain_text("Step 3 of 9")
    assert tree.locator("g.dropped").count() == 4
    assert tree.locator("g.wins").count() == 0
    press(tree, "back")
    expect(said).to_contain_text("Step 2 of 9")
    press(tree, "to the end", "back")
    assert "the search goes on" in tree.inner_text()
    press(tree, "one step", "one step")  # the second of them does nothing
    assert "the search stops" in tree.inner_text()
    assert tree.get_by_role("button", name="one step").get_attribute("aria-disabled") == "true"
    assert tree.locator("path.wins").count() == len(winner(tree)) - 1 == 8


def test_a_beam_of_one_keeps_one(tree: Locator):
    tree.get_by_role("radio", name="1", exact=True).first.check()
    press(tree, "first")
    expect(tree.get_by_role("status")).to_contain_text("kept 1 beginning, the likeliest “a”")
    assert tree.locator("g").count() == 1 + 2


def test_the_list_holds_what_the_picture_shows(tree: Locator):
    tree.locator("summary").click()
    lines = tree.locator("li").all_inner_texts()
    assert lines[0] == "“a woman sitting on the bench.” score −2.10, finished"
    assert len([line for line in lines if line.endswith("finished")]) == 4
    assert len([line for line in lines if line.endswith("kept")]) == 4
    assert len([line for line in lines if line.endswith("dropped")]) == 3
    picture = tree.get_by_role("img").get_attribute("aria-label")
    assert picture.startswith("The tree of a search with a beam of 4, ")
    assert "the winner is “a woman sitting on the bench.”" in picture


def test_the_keyboard_alone_is_enough(tree: Locator):
    said = tree.get_by_role("status")
    tree.page.keyboard.press("Tab")
    tree.page.keyboard.press("ArrowRight")  # the width, from 4 to 5
    tree.page.keyboard.press("Tab")
    tree.page.keyboard.press("ArrowRight")  # the penalty, from 0 to 0.6
    expect(said).to_contain_text("Step 9 of 9: the winner is “a woman is sitting on the bench.”")
    tree.page.keyboard.press("Tab")
    tree.page.keyboard.press("Tab")
    for step in (8, 7):
        tree.page.keyboard.press("Enter")
        expect(said).to_contain_text(f"Step {step} of 9")
    tree.page.keyboard.press("Tab")
    tree.page.keyboard.press("Space")
    tree.page.keyboard.press("Space")
    expect(said).to_contain_text("Step 9 of 9")
    assert tree.page.evaluate("document.activeElement.textContent") == "one step"
    tree.page.keyboard.press("Tab")
    tree.page.keyboard.press("Tab")
    assert tree.page.evaluate("document.activeElement.className") == "unmasked-tree"


def test_at_its_limit_a_sentence_is_cut_and_words_get_their_blanks(browser: Browser):
    data = {
        "sentence": "x", "tokens": ["<eos>", "a", "b"], "limit": 2, "widths": [1],
        "penalties": [0.25], "start": {"width": 1, "penalty": 0.25},
        "tree": [[1, -0.5, [[2, -0.2], [0, -1.7]]], [2, -2.0]],
    }  # fmt: skip
    picture = curves({"a": [1, 2]}, xlabel="x", ylabel="y")
    score = 0.7 / ((5 + 2) / 6) ** 0.25
    with alone(browser, Explorable("beam", picture, "a small search", data)) as tree:
        expect(tree.get_by_role("status")).to_have_text(
            f"Step 2 of 2: the winner is “a b” with score −{score:.2f}. Finished: 1."
        )
        assert "nothing is left to continue" in tree.inner_text()


def test_it_fits_a_phone_and_is_accessible(browser: Browser, figure: Explorable, theme: str):
    with alone(browser, figure, 390, theme) as tree:
        assert overflow(tree.page) <= 0
        box = tree.locator(".unmasked-tree")
        assert box.evaluate("e => e.scrollLeft + e.clientWidth === e.scrollWidth")  # at its end
        assert box.evaluate("e => e.scrollLeft") > 0
        tree.locator("summary").click()
        press(tree, "first", "one step")
        assert faults_of_access(tree.page, ".unmasked-live") == []


def test_without_a_penalty_the_reason_to_stop_needs_no_division(tree: Locator):
    assert "If it lost nothing more on its way, it would score" in tree.inner_text()
    assert " / " not in tree.inner_text()
    tree.get_by_role("radio", name="0.6", exact=True).last.check()
    press(tree, "to the end")
    assert " / " in tree.inner_text()


@pytest.mark.parametrize(
    ("size", "theme", "scrolls"),
    [(SIZES["wide"], "light", False), (SIZES["narrow"], "light", True)],
)
def test_the_tree_shrinks_to_its_page_before_it_scrolls(visit: Visit, scrolls: bool):
    box = visit.open("book/09_decoding").locator(".unmasked-tree")
    sizes = box.evaluate("box => [box.scrollWidth, box.clientWidth, box.firstChild.clientWidth]")
    assert (sizes[0] > sizes[1] + 1) == scrolls
    natural = float(box.locator("svg").get_attribute("width"))
    assert 0.75 * natural - 1 <= sizes[2] <= natural

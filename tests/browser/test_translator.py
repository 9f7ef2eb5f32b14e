"""The figure works as a reader would use it: on its page, from a file, in a notebook."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, expect

import unmasked
from helpers.engine import small_translator
from helpers.pages import HTML
from helpers.visit import SIZES, Visit, alone, faults_on_a_phone, visiting
from unmasked.evaluation import maps_of_pairs
from unmasked_book import recorded
from unmasked_book.ablation import PARTS
from unmasked_book.live import live, tables
from unmasked_book.live.code import lines_of_places
from unmasked_book.live.translator import camel, script

LONG = f"text={'%EF%B7%BA' * 300}"  # one letter becomes eighteen
CAT, CHASES, CHASED = "Eine Katze jagt eine Frau.", "a cat chases a woman.", "a woman chases a cat."
FIRST = "a black cat sleeps in a chair."  # of the text that stands there at first
MOST_BYTES = 2.85e6  # after the click
FILES = "performance.getEntriesByType('resource').filter(e => e.name.includes('/live/'))"
ANYTHING = re.compile(".")
IN_VIEW = """e => { const { x, top, bottom } = e.getBoundingClientRect();
return e === document.elementFromPoint(x + 5, (top + bottom) / 2); }"""


def translated(text: str, name: str = "de-en", **options: object) -> str:
    [answer] = unmasked.load(name).translate([text], **options)
    return answer


class Box:
    """Finds the parts of the figure as a reader does."""

    def __init__(self, figure: Locator) -> None:
        self.figure, self.page = figure, figure.page
        self.text = figure.get_by_role("textbox").first
        self.answers = figure.locator(".unmasked-translation")
        self.title = figure.locator(".unmasked-answers")
        self.panel = figure.locator("[data-panel]")

    @classmethod
    def of(cls, page: Page) -> Box:
        return cls(page.locator(".unmasked-live").first)

    def load(self) -> Box:
        """Presses the button, and waits for the first translation."""
        self.press("Load the model")
        expect(self.answers.first).not_to_have_text("…")
        return self

    def says(self, *texts: str | re.Pattern) -> None:
        expect(self.answers).to_have_text([*texts])

    def press(self, name: str) -> None:
        self.figure.get_by_role("button", name=name).click()

    def switch(self, part: str) -> None:
        self.figure.locator(f"[data-switch={part}]").first.dispatch_event("click")

    def place(self, name: str) -> Locator:
        return self.figure.locator(f"button[data-place='{name}']")

    def chips(self, name: str = "What the encoder reads") -> Locator:
        return self.figure.get_by_role("group", name=name).get_by_role("button")

    def follow(self, state: str) -> None:
        """Follows a link to a state, once the state of now is in the address."""
        self.page.wait_for_function("location.hash")
        self.page.evaluate("state => { location.hash = `live?${state}`; }", state)


@pytest.fixture(scope="module")
def loaded(browser: Browser, site: str) -> Iterator[Box]:
    """Opens the page of the live model, and loads it once for all tests."""
    with visiting(browser, site) as visit:
        yield Box.of(visit.open("book/live")).load()


@pytest.fixture
def box(loaded: Box) -> Box:
    """Resets the figure to what it is when it has been loaded."""
    loaded.page.set_viewport_size(SIZES["wide"])
    loaded.page.evaluate("history.replaceState(null, '', '#')")
    loaded.press("Reset")
    loaded.says(FIRST)
    return loaded


def test_the_translation_follows_the_text(box: Box):
    for text, answer in (("ein hund", translated("ein hund")), ("", "…")):
        box.text.fill(text)
        box.says(answer)
    for text in ("Zwei Männer spielen.", "Ein Hund", CAT):  # whoever types fast gets the last one
        box.text.fill(text)
    box.says(CHASES)


def test_a_token_that_is_hidden_vanishes_from_the_translation(box: Box):
    box.place("encoder.tokens").click()
    box.press("hide schwarze")
    box.says(FIRST, "a cat sleeps in a chair.")
    expect(box.title).to_contain_text("Without “schwarze”")
    box.press("show schwarze")
    box.says(FIRST)


def test_without_positions_the_order_of_the_source_does_not_matter(box: Box):
    box.text.fill(CAT)
    box.switch("encoderPositions")
    box.says(CHASES, CHASED)
    box.place("encoder.tokens").click()
    for _ in range(3):
        order = box.chips().all_inner_texts()
        box.press("Shuffle the source")
        expect(box.chips()).not_to_have_text(order)
        assert box.answers.nth(1).inner_text() == CHASED
    box.press("Back in order")
    box.says(CHASES, CHASED)


def test_every_switch_changes_something_and_can_be_put_back(box: Box):
    measured = recorded("ablations")["models"]["de-en"]
    for part in PARTS:
        box.switch(camel(part))
        box.says(FIRST, ANYTHING)
        expect(box.title).to_contain_text(f"Without {tables.PARTS[part]}")
        expect(box.panel).to_contain_text(f"BLEU 50.0 → {measured[part]['bleu']:.1f}.")
        box.switch(camel(part))
        box.says(FIRST)


def test_every_box_opens_on_numbers_and_its_lines(box: Box):
    names = box.figure.locator("[data-place]").evaluate_all("all => all.map(e => e.dataset.place)")
    assert sorted(names) == sorted(lines_of_places())
    for name, (lines, callers) in lines_of_places().items():
        box.place(name).click()
        expect(box.place(name)).to_have_attribute("aria-current", "true")
        assert box.panel.locator("table").count() >= 1
        shown = box.panel.locator(".unmasked-code code").all_text_contents()
        assert shown == [line for _, line in (*lines, *callers)]
    box.chips("Token by token").nth(3).click()
    expect(box.chips("Token by token").nth(3)).to_have_attribute("aria-current", "true")
    box.chips().nth(1).click()
    expect(box.panel.locator("summary").first).to_contain_text("schwarze")


def test_the_numbers_that_are_shown_make_the_weights_that_are_shown(box: Box):
    box.place("decoder.cross").click()
    box.panel.get_by_text("All 32 numbers").click()
    script = """tables => tables.map(table => [...table.rows].slice(1).map(row =>
        [...row.cells].map(cell => parseFloat(cell.innerText.replace("−", "-")))))"""
    found = box.panel.locator(".unmasked-table:not(.unmasked-map)").evaluate_all(script)
    weights = torch.tensor([row[3] for row in found[0]]) / 100
    query, *others = torch.tensor([row[1:] for row in found[1]])
    keys, values = torch.stack(others[: len(weights)]), torch.stack(others[len(weights) : -1])
    again = (keys @ query / 32**0.5).softmax(0)
    assert (again - weights).abs().max() < 0.01
    assert (again @ values - others[-1]).abs().max() < 0.01


def test_heads_can_be_silenced_and_chosen(box: Box):
    box.place("decoder.cross").click()
    box.panel.get_by_role("radio", name="3").check()
    box.panel.get_by_role("switch", name="head on").click()
    expect(box.title).to_contain_text("Without 1 head")
    silent = box.panel.locator("label", has_text="3").first
    expect(silent).to_have_css("text-decoration-line", "line-through")  # in every colour
    box.panel.get_by_role("switch", name="head on").click()
    box.says(FIRST)


def test_another_next_token_can_be_chosen_and_the_model_goes_on(box: Box):
    box.text.fill(CAT)
    box.says(CHASES)
    token = box.chips("Token by token").nth(1)
    token.click()
    box.place("logits").click()
    options = box.panel.get_by_role("button", name=re.compile("^write "))
    expect(options).to_have_count(5)
    second = options.nth(1).get_attribute("aria-label").removeprefix("write ")
    options.nth(1).click()
    expect(token).to_have_text(second)
    box.says(re.compile(rf"^a {second}"))


def test_the_tour_tells_the_readers_own_numbers_and_gives_back_what_was_set(box: Box):
    box.text.fill(CAT)
    box.switch("decoderPositions")
    box.says(CHASES, ANYTHING)
    tour = box.figure.get_by_role("group", name="tour")
    box.page.get_by_role("button", name="Take the tour").focus()
    for number in range(1, 9):
        box.page.keyboard.press("Enter")  # the focus stays on Next
        expect(tour).to_contain_text(f"{number} of 8.")
        if number == 6:
            model = unmasked.load("de-en")
            [maps] = maps_of_pairs(model, [(CAT, CHASES)])
            row = maps.cross[1, 1, 2]
            percent, word = re.search(r"(\d+)% of “(\w+)”", tour.inner_text()).groups()
            assert abs(int(percent) - 100 * float(row.max())) < 3  # int8 here, float16 there
            assert word == model.source.pieces(CAT)[int(row.argmax())].strip("▁")
    expect(box.answers).to_have_count(2)
    box.place("encoder.self").click()
    expect(tour).to_have_text("Take the tour")
    expect(box.title).to_contain_text("Without positions of the target")


def test_a_beginning_can_be_forced_by_a_link_or_by_hand_and_let_go(box: Box):
    begin = box.figure.get_by_label("must begin with")
    forced = "there is a dog sleeping under the table."
    box.page.get_by_role("link", name="Put words in its mouth").click()
    box.says(forced)
    expect(begin).not_to_have_value("")  # it is written a frame later
    begin.fill("")
    box.page.wait_for_function("!location.hash.includes('begin')")
    begin.fill("there is")
    box.says(forced)


def test_beam_search_shows_its_tree_and_sampling_draws_again(box: Box):
    box.text.fill(CAT)
    box.figure.get_by_text("How the next token is chosen").click()
    box.figure.get_by_role("radio", name="beam of 5").check()
    tree = box.figure.get_by_role("img", name="The beam's tree")
    expect(tree).to_be_visible()
    box.says(translated(CAT, beam_size=5))
    assert tree.locator("g.wins text:first-of-type").all_text_contents()[-1] == "<eos>"
    box.figure.get_by_role("radio", name="sampling").check()
    expect(tree).not_to_be_visible()
    box.figure.get_by_label("temperature").fill("3")
    before = box.answers.first.inner_text()
    box.press("Draw again")
    expect(box.answers.first).not_to_have_text(before)


@pytest.mark.parametrize(
    "state",
    [
        "text=Ein+Hund.&begin=7999.99&hide=99&off=toString,constructor&heads=cross.9.9",
        LONG,
        "text=%3Cimg+src=x+onerror=alert(1)%3E&begin=%3Cb%3E",
        "text=Ein+Hund.&model=xx&off=nothing&order=5.5&hide=a&head=2.1&seed=x&temperature=9",
    ],
)
def test_a_hostile_link_does_no_harm(box: Box, state: str):
    box.follow(state)
    expect(box.answers.first).not_to_have_text(FIRST)
    assert 0 < len(box.text.input_value()) <= 300
    cut = "Of these 5,401 tokens only the first 100 are read."
    expect(box.figure.locator(".unmasked-note")).to_have_text(cut if state == LONG else "")
    assert not re.search("Without|99", box.title.inner_text())
    assert box.figure.locator("img, b").count() == 0
    assert box.chips().count() <= 101


def test_open_it_is_accessible_and_fits(box: Box):
    box.follow("off=scale&search=beam&text=Ein+Hund+schl%C3%A4ft.")
    expect(box.answers).to_have_count(2)
    box.place("decoder.feed-forward-add").click()
    assert faults_on_a_phone(box.page) == []


def test_nothing_is_loaded_before_the_click_and_little_after_it(visit: Visit):
    page = visit.open("book/intro")
    page.wait_for_load_state("networkidle")
    assert page.evaluate(f"{FILES}.length") == 0
    button = page.get_by_role("button", name="Load the model")
    megabytes = float(re.search(r"\(([\d.]+) MB\)", button.inner_text())[1])
    box = Box.of(page).load()
    sizes = dict(page.evaluate(f"{FILES}.map(e => [e.name.split('/').pop(), e.encodedBodySize])"))
    assert sizes.keys() == {"de-en.bin", "live.js"}
    sent = sizes["de-en.bin"] + len(gzip.compress(script().encode()))  # as servers send it
    assert sent < MOST_BYTES
    assert abs(sent / 1e6 - megabytes) <= 0.05001
    box.chips("examples").get_by_text(CAT).click()
    box.says(CHASES)
    expect(box.text).to_have_value(CAT)


def test_a_link_opens_a_state_and_the_state_makes_a_link(visit: Visit):
    state = (
        "text=Eine+Katze+jagt+eine+Frau.&hide=1&begin=a+woman&off=encoderPositions"
        "&heads=cross.3.3&at=decoder.feed-forward&layer=3&head=4"
    )
    page = visit.open("book/live", f"#live?{state}")
    expect(page.get_by_role("button", name="open what the link describes")).to_be_focused()
    box = Box.of(page).load()
    expect(box.title).to_contain_text("Without positions of the source, 1 head, “katze”")
    expect(box.panel.locator("summary").first).to_contain_text("feed-forward, layer 3")
    assert all(answer.startswith("a woman") for answer in box.answers.all_inner_texts())
    box.switch("norms")
    expect(box.title).to_contain_text("layer norms")
    page.wait_for_function("location.hash.includes('norms')")
    made = parse_qsl(page.evaluate("location.hash.slice('#live?'.length)"))
    kept = parse_qsl(state.replace("encoderPositions", "encoderPositions,norms"))
    assert sorted(made) == sorted([("model", "de-en"), *kept])


def test_on_a_phone_both_answers_stay_in_view_while_one_types(visit: Visit):
    visit.page.set_viewport_size({"width": 390, "height": 420})  # above the keyboard
    box = Box.of(visit.open("book/live")).load()
    expect(box.text).to_be_focused()
    box.text.fill("Ein Hund schläft.")
    box.switch("scale")
    expect(box.answers).to_have_count(2)
    assert all(answer.evaluate(IN_VIEW) for answer in box.answers.all())


def test_it_works_by_keyboard_alone_and_says_what_changes(visit: Visit):
    page = visit.open("book/live")
    box, said = Box.of(page), page.locator(".unmasked-live .unmasked-said").first
    page.get_by_role("button", name="Load the model").press("Enter")
    expect(page.get_by_role("textbox", name="A caption in German")).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type(CAT)
    expect(said).to_have_text(f"Translation: “{CHASES}”")
    box.place("encoder.tokens").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Space"):
        page.keyboard.press(key)
    expect(said).to_have_text(
        f"Without positions of the source: “{CHASED}” The whole model: “{CHASES}”"
    )


def test_a_model_that_does_not_come_can_be_asked_for_again(visit: Visit):
    page = visit.open("book/live")
    box = Box.of(page)
    page.route("**/live.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    box.press("Load the model")
    box.press("The script could not be loaded. Try again")
    page.unroute("**/live.js")
    page.route("**/de-en.bin", lambda route: route.fulfill(status=404, body=""))
    box.press("The script could not be loaded. Try again")
    expect(box.figure).to_contain_text("could not be loaded: the server answered 404")
    page.unroute("**/de-en.bin")
    box.load().text.fill(CAT)
    german, english = map(box.figure.get_by_label, ("German → English", "English → German"))
    page.route("**/en-de.bin", lambda route: route.abort())
    english.check()
    expect(box.figure.get_by_text("The other model could not be loaded")).to_be_visible()
    expect(german).to_be_checked()
    box.says(CHASES)
    page.unroute("**/en-de.bin")
    english.click()
    expect(box.figure.get_by_label("A caption in English")).to_be_visible()
    box.text.fill("A cat chases a woman.")
    box.says(translated("A cat chases a woman.", "en-de"))
    assert [fault for fault in visit.faults if "404" in fault]
    visit.faults.clear()


def test_it_works_from_a_file_and_in_the_sandboxed_output_of_a_notebook(browser: Browser):
    with visiting(browser, "file:") as visit:
        visit.page.goto((HTML / "book/live.html").as_uri())
        from_file = Box.of(visit.page).load()
        from_file.text.fill(CAT)
        from_file.says(CHASES)
        visit.page.set_content('<iframe sandbox="allow-scripts" width="800"></iframe>')
        show = "(frame, html) => { frame.srcdoc = html; }"
        visit.page.locator("iframe").evaluate(show, live("de-en")._repr_html_())
        in_output = Box(visit.page.frame_locator("iframe").locator(".unmasked-live").first)
        expect(in_output.answers.first).to_be_visible()
        in_output.text.fill(CAT)
        in_output.says(CHASES)


def test_a_model_of_ones_own_is_shown_box_by_box(browser: Browser, tmp_path: Path):
    options = {"norm": "post", "positions": "learned", "activation": "gelu", "n_decoder_layers": 3}
    path = tmp_path / "own.safetensors"
    small_translator(**options, max_len=20).save(path)
    with alone(browser, live(path)._repr_html_()) as figure:
        box = Box(figure)
        expect(box.answers).to_have_count(1)
        box.text.fill("w3 w5 w8")
        expect(box.chips()).to_have_text(["w3", "w5", "w8", "<eos>"])
        for name in lines_of_places():
            box.place(name).click()
            assert box.panel.locator("table").count() >= 1

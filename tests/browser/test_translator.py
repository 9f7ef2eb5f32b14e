"""The figure, used as a reader would use it: on its page, from a file, in a notebook."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, expect

import unmasked
from helpers import VOCABULARY, small_config
from helpers.comparisons import random_translator
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
OTHER = re.compile("English → German")


def translated(text: str, name: str = "de-en", **options: object) -> str:
    [answer] = unmasked.load(name).translate([text], **options)
    return answer


def load(page: Page) -> Locator:
    """The box, after its button was pressed and the first translation has come."""
    box = page.locator(".unmasked-live").first
    press(box, "Load the model")
    expect(answers(box).first).not_to_have_text("…", timeout=30_000)
    return box


def answers(box: Locator) -> Locator:
    return box.locator(".unmasked-translation")


def says(box: Locator, *texts: str | re.Pattern) -> None:
    expect(answers(box)).to_have_text([*texts])


def typed(box: Locator, text: str) -> None:
    box.get_by_role("textbox").first.fill(text)


def press(box: Locator, name: str) -> None:
    box.get_by_role("button", name=name).click()


def switch(box: Locator, part: str) -> None:
    box.locator(f"[data-switch={part}]").first.click()


def place(box: Locator, name: str) -> Locator:
    return box.locator(f"button[data-place='{name}']")


def panel(box: Locator) -> Locator:
    return box.locator("[data-panel]")


def chips(box: Locator, name: str = "What the encoder reads") -> Locator:
    return box.get_by_role("group", name=name).get_by_role("button")


def follow(box: Locator, state: str) -> None:
    """A link to a state, on the page itself, once what it says of now is in the address."""
    box.page.wait_for_function("location.hash")
    box.page.evaluate("state => { location.hash = `live?${state}`; }", state)


@pytest.fixture(scope="module")
def loaded(browser: Browser, site: str) -> Iterator[Visit]:
    """The page of the live model, opened and loaded once for all."""
    with visiting(browser, site) as visit:
        load(visit.open("book/live"))
        yield visit


@pytest.fixture
def box(loaded: Visit) -> Locator:
    """As it is when it has been loaded."""
    loaded.page.set_viewport_size(SIZES["wide"])
    loaded.page.evaluate("history.replaceState(null, '', '#')")
    box = loaded.page.locator(".unmasked-live").first
    press(box, "Reset")
    says(box, FIRST)
    return box


def test_the_translation_follows_the_text(box: Locator):
    typed(box, "ein hund")
    says(box, translated("ein hund"))
    typed(box, "")
    says(box, "…")
    for text in ("Zwei Männer spielen.", "Ein Hund", CAT):  # whoever types fast gets the last one
        typed(box, text)
    says(box, CHASES)


def test_a_token_that_is_hidden_vanishes_from_the_translation(box: Locator):
    place(box, "encoder.tokens").click()
    press(panel(box), "hide schwarze")
    says(box, FIRST, "a cat sleeps in a chair.")
    expect(box.locator(".unmasked-answers")).to_contain_text("Without “schwarze”")
    press(panel(box), "show schwarze")
    says(box, FIRST)


def test_without_positions_the_order_of_the_source_does_not_matter(box: Locator):
    typed(box, CAT)
    switch(box, "encoderPositions")
    says(box, CHASES, CHASED)
    place(box, "encoder.tokens").click()
    for _ in range(3):
        order = chips(box).all_inner_texts()
        press(box, "Shuffle the source")
        expect(chips(box)).not_to_have_text(order)
        assert answers(box).nth(1).inner_text() == CHASED
    press(box, "Back in order")
    says(box, CHASES, CHASED)


def test_every_switch_changes_something_and_can_be_put_back(box: Locator):
    for part in PARTS:
        switch(box, camel(part))
        says(box, FIRST, re.compile("."))
        expect(box.locator(".unmasked-answers")).to_contain_text(f"Without {tables.PARTS[part]}")
        measured = recorded("ablations")["models"]["de-en"][part]["bleu"]
        expect(panel(box)).to_contain_text(f"BLEU 50.0 → {measured:.1f}.")
        switch(box, camel(part))
        says(box, FIRST)


def test_every_box_opens_on_numbers_and_its_lines(box: Locator):
    names = box.locator("[data-place]").evaluate_all("all => all.map(one => one.dataset.place)")
    assert sorted(names) == sorted(lines_of_places())
    for name, (lines, callers) in lines_of_places().items():
        place(box, name).click()
        expect(place(box, name)).to_have_attribute("aria-current", "true")
        assert panel(box).locator("table").count() >= 1
        shown = panel(box).locator(".unmasked-code code").all_text_contents()
        assert shown == [line for _, line in (*lines, *callers)]
    chips(box, "Token by token").nth(3).click()
    expect(chips(box, "Token by token").nth(3)).to_have_attribute("aria-current", "true")
    chips(box).nth(1).click()
    expect(panel(box).locator("summary").first).to_contain_text("schwarze")


def test_the_numbers_that_are_shown_make_the_weights_that_are_shown(box: Locator):
    place(box, "decoder.cross").click()
    panel(box).get_by_text("All 32 numbers").click()
    script = "tables => tables.map(t => [...t.rows].map(r => [...r.cells].map(c => c.innerText)))"
    found = panel(box).locator(".unmasked-table:not(.unmasked-map)").evaluate_all(script)
    [first, second] = [[[cell.replace("−", "-") for cell in row] for row in rows] for rows in found]
    weights = [float(row[3].strip("%\n ")) / 100 for row in first[1:]]
    query, *others = [torch.tensor([float(cell) for cell in row[1:]]) for row in second[1:]]
    keys, values = torch.stack(others[: len(weights)]), torch.stack(others[len(weights) : -1])
    again = (keys @ query / 32**0.5).softmax(0)
    assert (again - torch.tensor(weights)).abs().max() < 0.01
    assert (again @ values - others[-1]).abs().max() < 0.01


def test_heads_can_be_silenced_and_chosen(box: Locator):
    place(box, "decoder.cross").click()
    panel(box).get_by_role("radio", name="3").check()
    panel(box).get_by_role("switch", name="head on").click()
    expect(box.locator(".unmasked-answers")).to_contain_text("Without 1 head")
    silent = panel(box).locator("label", has_text="3").first
    expect(silent).to_have_css("text-decoration-line", "line-through")  # in every colour
    panel(box).get_by_role("switch", name="head on").click()
    says(box, FIRST)


def test_another_next_token_can_be_chosen_and_the_model_goes_on(box: Locator):
    typed(box, CAT)
    says(box, CHASES)
    chips(box, "Token by token").nth(1).click()
    place(box, "logits").click()
    options = panel(box).get_by_role("button", name=re.compile("^write "))
    expect(options).to_have_count(5)
    second = options.nth(1).get_attribute("aria-label").removeprefix("write ")
    options.nth(1).click()
    expect(chips(box, "Token by token").nth(1)).to_have_text(second)
    says(box, re.compile(rf"^a {second}"))


def test_the_tour_tells_the_readers_own_numbers_and_gives_back_what_was_set(box: Locator):
    typed(box, CAT)
    switch(box, "decoderPositions")
    says(box, CHASES, re.compile("."))
    box.page.get_by_role("button", name="Take the tour").focus()
    tour = box.get_by_role("group", name="tour")
    box.page.keyboard.press("Enter")
    expect(tour).to_contain_text("1 of 8. The sentence is cut into 7 tokens")
    for number in range(2, 9):
        box.page.keyboard.press("Enter")  # the focus stays on Next
        expect(tour).to_contain_text(f"{number} of 8.")
        if number == 6:
            cross = unmasked.load("de-en")
            [maps] = maps_of_pairs(cross, [(CAT, CHASES)])
            row = maps.cross[1, 1, 2]
            source = cross.source.pieces(CAT)[int(row.argmax())].strip("▁")
            said = re.search(r"(\d+)% of “(\w+)”", tour.inner_text())
            assert abs(int(said[1]) - 100 * float(row.max())) < 3  # int8 here, float16 there
            assert said[2] == source
    expect(answers(box)).to_have_count(2)
    place(box, "encoder.self").click()
    expect(tour).to_have_text("Take the tour")
    expect(box.locator(".unmasked-answers")).to_contain_text("Without positions of the target")


def test_a_beginning_can_be_forced_by_a_link_or_by_hand_and_let_go(box: Locator):
    begin, forced = box.get_by_label("must begin with"), "there is a dog sleeping under the table."
    box.page.get_by_role("link", name="Put words in its mouth").click()
    says(box, forced)
    expect(begin).not_to_have_value("")  # it is written a frame later
    begin.fill("")
    says(box, "a dog sleeps under the table.")
    box.page.wait_for_function("!location.hash.includes('begin')")
    begin.fill("there is")
    says(box, forced)


def test_beam_search_shows_its_tree_and_sampling_draws_again(box: Locator):
    typed(box, CAT)
    box.get_by_text("How the next token is chosen").click()
    box.get_by_role("radio", name="beam of 5").check()
    tree = box.get_by_role("img", name="The beam's tree")
    expect(tree).to_be_visible()
    says(box, translated(CAT, beam_size=5))
    assert tree.locator("g.wins text:first-of-type").all_text_contents()[-1] == "<eos>"
    box.get_by_role("radio", name="sampling").check()
    expect(tree).not_to_be_visible()
    box.get_by_label("temperature").fill("3")
    before = answers(box).first.inner_text()
    press(box, "Draw again")
    expect(answers(box).first).not_to_have_text(before)


@pytest.mark.parametrize(
    "state",
    [
        "begin=7999.99999999&hide=99&off=toString,constructor&heads=cross.9.9",
        LONG,
        "text=%3Cimg+src=x+onerror=alert(1)%3E&begin=%3Cb%3E",
        "model=xx&off=nothing&order=5.5&hide=a&head=2.1&seed=x&temperature=9",
    ],
)  # fmt: skip
def test_a_hostile_link_does_no_harm(box: Locator, state: str):
    follow(box, state if "text=" in state else f"{state}&text=Ein+Hund.")
    expect(answers(box).first).not_to_have_text(FIRST)
    assert 0 < len(box.get_by_role("textbox").first.input_value()) <= 300
    cut = "Of these 5,401 tokens only the first 100 are read."
    expect(box.locator(".unmasked-note")).to_have_text(cut if state == LONG else "")
    shown = box.locator(".unmasked-answers").inner_text()
    assert "Without" not in shown
    assert "99" not in shown
    assert box.locator("img, b").count() == 0
    assert chips(box).count() <= 101


def test_open_it_is_accessible_and_fits(box: Locator):
    follow(box, "off=scale&search=beam&text=Ein+Hund+schl%C3%A4ft.")
    expect(answers(box)).to_have_count(2)
    place(box, "decoder.feed-forward-add").click()
    assert faults_on_a_phone(box.page) == []


def test_nothing_is_loaded_before_the_click_and_little_after_it(visit: Visit):
    page = visit.open("book/intro", until="networkidle")
    assert page.evaluate(f"{FILES}.length") == 0
    button = page.get_by_role("button", name="Load the model")
    megabytes = float(re.search(r"\(([\d.]+) MB\)", button.inner_text())[1])
    box = load(page)
    sizes = dict(page.evaluate(f"{FILES}.map(e => [e.name.split('/').pop(), e.encodedBodySize])"))
    assert sizes.keys() == {"de-en.bin", "live.js"}
    sizes["live.js"] = len(gzip.compress(script().encode()))  # as servers send it
    assert sum(sizes.values()) < MOST_BYTES
    assert abs(sum(sizes.values()) / 1e6 - megabytes) <= 0.05001
    chips(box, "examples").get_by_text(CAT).click()
    says(box, CHASES)
    assert box.get_by_role("textbox").first.input_value() == CAT


def test_a_link_opens_a_state_and_the_state_makes_a_link(visit: Visit):
    state = (
        "text=Eine+Katze+jagt+eine+Frau.&hide=1&begin=a+woman&off=encoderPositions"
        "&heads=cross.3.3&at=decoder.feed-forward&layer=3&head=4"
    )
    page = visit.open("book/live", f"#live?{state}")
    expect(page.get_by_role("button", name="open what the link describes")).to_be_focused()
    box = load(page)
    title = box.locator(".unmasked-answers")
    expect(title).to_contain_text("Without positions of the source, 1 head, “katze”")
    expect(panel(box).locator("summary").first).to_contain_text("feed-forward, layer 3")
    for answer in answers(box).all_inner_texts():
        assert answer.startswith("a woman")
    switch(box, "norms")
    expect(title).to_contain_text("layer norms")
    page.wait_for_function("location.hash.includes('norms')")
    made = parse_qsl(page.evaluate("location.hash.slice('#live?'.length)"))
    kept = parse_qsl(state.replace("encoderPositions", "encoderPositions,norms"))
    assert sorted(made) == sorted([("model", "de-en"), *kept])


def test_on_a_phone_both_answers_stay_in_view_while_one_types(visit: Visit):
    visit.page.set_viewport_size({"width": 390, "height": 420})  # above the keyboard
    box = load(visit.open("book/live"))
    expect(box.get_by_role("textbox").first).to_be_focused()
    typed(box, "Ein Hund schläft.")
    box.locator("[data-switch=scale]").first.dispatch_event("click")
    expect(answers(box)).to_have_count(2)
    for answer in answers(box).all():
        assert answer.evaluate(
            "e => { const { x, top, bottom } = e.getBoundingClientRect();"
            " return e === document.elementFromPoint(x + 5, (top + bottom) / 2); }"
        )


def test_it_works_by_keyboard_alone_and_says_what_changes(visit: Visit):
    page = visit.open("book/live")
    page.get_by_role("button", name="Load the model").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="A caption in German")).to_be_focused(timeout=30_000)
    box = page.locator(".unmasked-live").first
    said = box.locator(".unmasked-said")
    page.keyboard.press("Control+a")
    page.keyboard.type(CAT)
    expect(said).to_have_text(f"Translation: “{CHASES}”")
    place(box, "encoder.tokens").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Space"):
        page.keyboard.press(key)
    expect(said).to_have_text(
        f"Without positions of the source: “{CHASED}” The whole model: “{CHASES}”"
    )


def test_a_model_that_does_not_come_can_be_asked_for_again(visit: Visit):
    page = visit.open("book/live")
    page.route("**/de-en.bin", lambda route: route.fulfill(status=404, body=""))
    box = page.locator(".unmasked-live").first
    press(box, "Load the model")
    expect(box).to_contain_text("could not be loaded: the server answered 404")
    page.unroute("**/de-en.bin")
    load(page)
    typed(box, CAT)
    german = box.get_by_role("radio", name="German → English")
    english = box.get_by_role("radio", name=OTHER)
    page.route("**/en-de.bin", lambda route: route.abort())
    english.check()
    expect(box.get_by_text("The other model could not be loaded")).to_be_visible(timeout=30_000)
    expect(german).to_be_checked()
    says(box, CHASES)
    page.unroute("**/en-de.bin")
    english.click()
    expect(box.get_by_label("A caption in English")).to_be_visible(timeout=30_000)
    typed(box, "A cat chases a woman.")
    says(box, translated("A cat chases a woman.", "en-de"))
    assert [fault for fault in visit.faults if "404" in fault]
    visit.faults.clear()


def test_it_works_from_a_file_and_in_the_sandboxed_output_of_a_notebook(browser: Browser):
    with visiting(browser, "file:") as visit:
        visit.page.goto((HTML / "book/live.html").as_uri())
        box = load(visit.page)
        typed(box, CAT)
        says(box, CHASES)
        visit.page.set_content('<iframe sandbox="allow-scripts" width="800"></iframe>')
        show = "(frame, html) => { frame.srcdoc = html; }"
        visit.page.locator("iframe").evaluate(show, live("de-en")._repr_html_())
        box = visit.page.frame_locator("iframe").locator(".unmasked-live").first
        expect(answers(box).first).to_be_visible(timeout=30_000)
        typed(box, CAT)
        says(box, CHASES)


def test_a_model_of_ones_own_is_shown_box_by_box(browser: Browser, tmp_path: Path):
    options = {"norm": "post", "positions": "learned", "activation": "gelu", "n_decoder_layers": 3}
    random_translator(small_config(**options, max_len=20), VOCABULARY).save(tmp_path)
    with alone(browser, live(tmp_path)._repr_html_()) as box:
        expect(answers(box)).to_have_count(1, timeout=30_000)
        typed(box, "w3 w5 w8")
        expect(chips(box)).to_have_text(["w3", "w5", "w8", "<eos>"])
        for name in lines_of_places():
            place(box, name).click()
            assert panel(box).locator("table").count() >= 1

"""The live translator, used as a reader would use it: on its page, from a file, in a notebook."""

import re
from collections.abc import Iterator
from functools import cache

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import unmasked
from helpers import camel
from helpers.pages import HTML
from helpers.visit import SIZES, Visit, faults_of_access, overflow
from unmasked.translator import Translator
from unmasked_book.ablation import PARTS, without
from unmasked_book.live import live

DESK = pytest.mark.parametrize(("size", "theme"), [(SIZES["wide"], "light")])
CAT = "Eine Katze jagt eine Frau."
MOST_BYTES = 2.85e6  # after the click


@cache
def translator(name: str = "de-en") -> Translator:
    return unmasked.load(name)


def broken(part: str, text: str) -> str:
    """What the package says without this part."""
    whole = translator()
    model = without(whole.model, part)
    [answer] = Translator(model, whole.source, whole.target).translate([text])
    return answer


def load(page: Page) -> Locator:
    """The box, after its button was pressed and the first translation has come."""
    box = page.locator(".unmasked-live").first
    box.get_by_role("button", name="Load the model").click()
    expect(answers(box).first).not_to_have_text("…", timeout=30_000)
    return box


def answers(box: Locator) -> Locator:
    return box.locator(".unmasked-translation")


def typed(box: Locator, text: str) -> None:
    box.get_by_role("textbox").first.fill(text)


def switch(box: Locator, name: str) -> None:
    box.get_by_role("checkbox", name=name, exact=True).click()


def chips(box: Locator, name: str) -> Locator:
    return box.get_by_role("group", name=name).get_by_role("button")


def read(box: Locator) -> Locator:
    return chips(box, "What the encoder reads")


def said(box: Locator) -> Locator:
    return box.locator(".unmasked-said")


@DESK
@pytest.mark.parametrize("name", ["book/intro", "book/live"])
def test_nothing_is_loaded_before_the_click_and_little_after_it(visit: Visit, name: str):
    asked = []
    visit.page.on("request", lambda request: asked.append(request.url))
    page = visit.open(name)
    assert not [url for url in asked if "/live/" in url]
    button = page.get_by_role("button", name="Load the model")
    megabytes = float(re.search(r"\(([\d.]+) MB\)", button.inner_text())[1])
    load(page)
    entries = "performance.getEntriesByType('resource').filter(e => e.name.includes('/live/'))"
    sizes = page.evaluate(f"{entries}.map(e => e.encodedBodySize)")
    names = page.evaluate(f"{entries}.map(e => e.name.split('/').pop())")
    assert sorted(names) == ["de-en.bin", "live.js"]
    assert sum(sizes) < MOST_BYTES
    assert abs(sum(sizes) / 1e6 - megabytes) <= 0.05001


@DESK
def test_the_translation_follows_the_text(visit: Visit):
    box = load(visit.open("book/live"))
    for text in (CAT, "Zwei Männer spielen.", "ein hund", "Ein Mädchen lächelt in die Kamera."):
        typed(box, text)
        expect(answers(box)).to_have_text(translator().translate([text]))
    typed(box, "")
    expect(answers(box)).to_have_text(["…"])
    typed(box, CAT)
    typed(box, "Ein Hund")
    typed(box, CAT)  # whoever types fast gets the last one
    expect(answers(box)).to_have_text(["a cat chases a woman."])


@DESK
def test_examples_are_a_click_away(visit: Visit):
    box = load(visit.open("book/intro"))
    box.get_by_role("group", name="examples").get_by_role("button", name=CAT).click()
    expect(answers(box)).to_have_text(["a cat chases a woman."])
    assert box.get_by_role("textbox").first.input_value() == CAT


@DESK
def test_a_token_that_is_hidden_vanishes_from_the_translation(visit: Visit):
    box = load(visit.open("book/live"))
    typed(box, "Eine schwarze Katze schläft auf einem Stuhl.")
    expect(answers(box)).to_have_text(["a black cat sleeps in a chair."])
    black = read(box).nth(1)
    assert black.inner_text() == "schwarze"
    black.click()
    expect(answers(box)).to_have_text(["a cat sleeps in a chair."])
    expect(black).to_have_attribute("aria-pressed", "true")
    black.click()
    expect(answers(box)).to_have_text(["a black cat sleeps in a chair."])


@DESK
def test_without_positions_the_order_of_the_source_does_not_matter(visit: Visit):
    box = load(visit.open("book/live"))
    typed(box, CAT)
    switch(box, "of the source")
    expect(answers(box)).to_have_text(["a cat chases a woman.", "a woman chases a cat."])
    expect(box.get_by_text("Who does what to whom?")).to_be_visible()
    in_order = read(box).all_inner_texts()
    orders, whole = set(), set()
    for _ in range(5):
        box.get_by_role("button", name="Shuffle the source").click()
        expect(answers(box).nth(1)).to_have_text("a woman chases a cat.")
        visit.page.wait_for_timeout(250)
        assert answers(box).nth(1).inner_text() == "a woman chases a cat."
        orders.add(tuple(read(box).all_inner_texts()))
        whole.add(answers(box).nth(0).inner_text())
    assert len(orders) > 3
    assert all(order[-1] == "<eos>" and sorted(order) == sorted(in_order) for order in orders)
    assert len(whole) > 1  # with positions it does
    box.get_by_role("button", name="Back in order").click()
    expect(answers(box).nth(0)).to_have_text("a cat chases a woman.")


@DESK
def test_every_switch_changes_something_and_can_be_put_back(visit: Visit):
    box = load(visit.open("book/live"))
    text = "Zwei ältere Herren spielen auf einer Bank Schach."
    typed(box, text)
    [whole] = translator().translate([text])
    expect(answers(box)).to_have_text([whole])
    switches = box.locator("fieldset input[type=checkbox]")
    assert switches.count() == len(PARTS)
    as_in_python = 0
    for part in PARTS:
        one = box.locator(f"input[name={camel(part)}]")
        label = one.locator("..").inner_text().strip()
        one.click()
        expect(answers(box)).to_have_count(2)
        expect(answers(box).first).to_have_text(whole)
        assert label in box.locator(".unmasked-answers").inner_text()
        as_in_python += answers(box).last.inner_text().split() == broken(part, text).split()
        one.click()
        expect(answers(box)).to_have_text([whole])
    assert as_in_python > len(PARTS) / 2  # broken, it magnifies what rounded weights change


@DESK
def test_heads_can_be_silenced_one_by_one_and_at_random(visit: Visit):
    box = load(visit.open("book/live"))
    heads = box.get_by_role("button", name=re.compile("^silence .* head"))
    assert heads.count() == 48
    heads.nth(5).click()
    expect(box.locator(".unmasked-answers")).to_contain_text("Without 1 head")
    for expected in (5, 9, 13):
        box.get_by_role("button", name="four more").click()
        pressed = heads.evaluate_all("all => all.filter(b => b.ariaPressed === 'true').length")
        assert pressed == expected
    expect(box.get_by_text("13 of 48 heads are silent")).to_be_visible()
    box.get_by_role("button", name="All heads on").click()
    expect(answers(box)).to_have_count(1)


@DESK
def test_another_next_token_can_be_chosen_and_the_model_goes_on(visit: Visit):
    box = load(visit.open("book/live"))
    typed(box, CAT)
    expect(answers(box)).to_have_text(["a cat chases a woman."])
    tokens = chips(box, "Token by token")
    tokens.nth(1).click()
    options = box.locator(".unmasked-alternatives button")
    expect(options).to_have_count(5)
    percents = options.locator(".unmasked-percent").all_inner_texts()
    chances = [float(re.search(r"([\d.]+)%$", text)[1]) for text in percents]
    assert chances == sorted(chances, reverse=True)
    assert options.first.get_attribute("aria-pressed") == "true"
    second = options.nth(1).locator(".unmasked-word").inner_text()
    options.nth(1).click()
    expect(tokens.nth(1)).to_have_text(second)
    expect(answers(box).first).to_have_text(re.compile(rf"^a {second}"))


@DESK
def test_a_beginning_can_be_forced_and_let_go(visit: Visit):
    box = load(visit.open("book/live"))
    typed(box, "Ein Hund schläft unter dem Tisch.")
    box.get_by_text("How the next token is chosen").click()
    begin = box.get_by_label("The translation must begin with")
    begin.fill("there is")
    expect(answers(box)).to_have_text(["there is a dog sleeping under the table."])
    begin.fill("")
    expect(answers(box)).to_have_text(["a dog sleeps under the table."])


@DESK
def test_beam_search_shows_its_tree_and_sampling_draws_again(visit: Visit):
    box = load(visit.open("book/live"))
    typed(box, CAT)
    box.get_by_text("How the next token is chosen").click()
    box.get_by_role("radio", name="beam of 5").check()
    tree = box.get_by_role("img", name="The beam's tree")
    expect(tree).to_be_visible()
    expect(answers(box)).to_have_text(translator().translate([CAT], beam_size=5))
    winners = tree.locator("g.wins text:first-of-type").all_text_contents()
    assert winners[-1] == "<eos>"
    box.get_by_role("radio", name="sampling").check()
    expect(tree).not_to_be_visible()
    box.get_by_label("temperature").fill("2")
    drawn = set()
    for _ in range(4):
        box.get_by_role("button", name="Draw again").click()
        visit.page.wait_for_timeout(300)
        drawn.add(answers(box).first.inner_text())
    assert len(drawn) > 1


@DESK
def test_where_it_looks_can_be_chosen(visit: Visit):
    box = load(visit.open("book/live"))
    typed(box, CAT)
    expect(answers(box)).to_have_text(["a cat chases a woman."])
    drawing = box.get_by_role("img", name="Cross-attention")
    assert "woman reads frau" in drawing.get_attribute("aria-label")
    assert drawing.locator("rect").count() == 7 * 7
    maps = set()
    for choice in ("best", "mean", "0.0", "3.3"):
        box.get_by_label("Show").select_option(choice)
        maps.add(drawing.get_attribute("aria-label").split(":", 1)[1])
    assert len(maps) == 4
    switch(box, "cross-attention")
    expect(box.get_by_text("nothing of the source is read")).to_be_visible()


@DESK
def test_the_other_model_translates_back(visit: Visit):
    page = visit.open("book/live")
    box = load(page)
    box.get_by_role("radio", name=re.compile("English → German")).check()
    expect(box.get_by_label("A caption in English")).to_be_visible(timeout=30_000)
    typed(box, "A cat chases a woman.")
    expect(answers(box)).to_have_text(translator("en-de").translate(["A cat chases a woman."]))


@DESK
def test_a_link_opens_a_state_and_the_state_makes_a_link(visit: Visit):
    state = "#live?text=Eine+Katze+jagt+eine+Frau.&off=encoderPositions&heads=cross.3.3&head=mean"
    visit.page.goto(f"{visit.site}/book/live.html{state}")
    button = visit.page.get_by_role("button", name="Load the model")
    expect(button).to_be_focused()
    expect(button).to_contain_text("open what the link describes")
    box = load(visit.page)
    expect(box.locator(".unmasked-answers")).to_contain_text("positions of the source, 1 head")
    assert box.get_by_label("Show").input_value() == "mean"
    switch(box, "layer norms")
    expect(box.locator(".unmasked-answers")).to_contain_text("layer norms")
    visit.page.wait_for_function("location.hash.includes('norms')")
    link = visit.page.url
    box.get_by_role("button", name="Reset").click()
    expect(answers(box)).to_have_count(1)
    visit.page.wait_for_function("!location.hash.includes('norms')")
    visit.page.evaluate("link => { location.href = link; }", link)  # the page stays
    expect(box.locator(".unmasked-answers")).to_contain_text("layer norms")
    assert box.get_by_role("textbox").first.input_value() == CAT


@DESK
def test_the_links_of_the_page_and_of_the_chapters_do_what_they_say(visit: Visit):
    page = visit.open("book/live")
    box = load(page)
    for link, expected in (
        ("Hide a word", "a cat sleeps in a chair."),
        ("Switch off the positions", "a woman chases a cat."),
        ("Put words in its mouth", "there is a dog sleeping under the table."),
    ):
        page.get_by_role("link", name=link).click()
        expect(answers(box).last).to_have_text(expected)
    page = visit.open("book/02_positional_encoding")
    page.get_by_role("link", name="Open the live model").click()
    box = load(page)
    expect(answers(box)).to_have_text(["a cat chases a woman.", "a woman chases a cat."])
    page = visit.open("book/05_encoder")
    page.get_by_role("link", name="open the live model").click()
    expect(answers(load(page)).last).to_have_text(re.compile(r"^(\w+ ?)\1{8,}$"))
    page = visit.open("book/06_decoder")
    page.get_by_role("link", name="Open the live model").click()
    box = load(page)
    expect(answers(box)).to_have_count(2)
    dream = answers(box).last.inner_text()
    typed(box, "Zwei Kinder spielen Fußball.")
    expect(answers(box).first).to_contain_text("children")
    expect(answers(box).last).to_have_text(dream)


@DESK
def test_a_state_that_makes_no_sense_is_put_right(visit: Visit):
    state = (
        "#live?model=xx&text=Ein+Hund.&off=nothing,residuals&heads=cross.9&order=5.5&hide=a"
        "&head=7.7&seed=x"
    )
    visit.page.goto(f"{visit.site}/book/live.html{state}")
    box = load(visit.page)
    expect(answers(box).first).to_have_text(translator().translate(["Ein Hund."])[0])
    expect(box.locator(".unmasked-answers")).to_contain_text("Without residual connections")


@DESK
@pytest.mark.parametrize(
    "state",
    [
        "begin=99999999", "begin=0", "begin=2", "begin=7999.8000", "off=toString,constructor",
        "heads=cross.9.9", "search=sample&seed=1.2.3", "search=sample&seed=99999999999999999999",
        f"text={'a.' * 1000}", "text=%3Cimg+src=x+onerror=alert(1)%3E&begin=%3Cb%3E",
        "temperature=9",
    ],
)  # fmt: skip
def test_a_hostile_link_does_no_harm(visit: Visit, state: str):
    visit.page.goto(f"{visit.site}/book/live.html#live?{state}")
    box = load(visit.page)
    assert len(box.get_by_role("textbox").first.input_value()) <= 300
    assert "Without" not in box.locator(".unmasked-answers").inner_text()
    assert visit.page.locator(".unmasked-live img, .unmasked-live b").count() == 0
    typed(box, "Ein Hund schläft.")
    if state.startswith("search=sample"):
        before = answers(box).first.inner_text()
        box.get_by_label("temperature").fill("3")
        box.get_by_role("button", name="Draw again").click()
        expect(answers(box).first).not_to_have_text(before)
    elif not state.startswith("text=%3C"):
        expect(answers(box).first).to_have_text(translator().translate(["Ein Hund schläft."])[0])


@DESK
def test_a_link_with_words_to_begin_with_can_be_followed_twice(visit: Visit):
    page = visit.open("book/live")
    box = load(page)
    forced = "there is a dog sleeping under the table."
    for _ in range(2):
        page.get_by_role("link", name="Put words in its mouth").click()
        expect(answers(box)).to_have_text([forced])
        box.get_by_label("The translation must begin with").fill("")
        expect(answers(box)).to_have_text(["a dog sleeps under the table."])
        page.wait_for_function("!location.hash.includes('begin')")


@DESK
def test_a_second_model_that_cannot_be_loaded_leaves_the_first(visit: Visit):
    page = visit.open("book/live")
    box = load(page)
    typed(box, CAT)
    page.route("**/en-de.bin", lambda route: route.abort())
    other = box.get_by_role("radio", name=re.compile("English → German"))
    other.check()
    refused = box.get_by_text("The other model could not be loaded")
    expect(refused).to_be_visible(timeout=30_000)
    expect(box.get_by_role("radio", name="German → English")).to_be_checked()
    expect(answers(box)).to_have_text(["a cat chases a woman."])
    page.wait_for_timeout(500)
    expect(refused).to_be_visible()  # what is translated again does not wipe it away
    page.unroute("**/en-de.bin")
    other.click()
    expect(box.get_by_label("A caption in English")).to_be_visible(timeout=30_000)
    expect(box.get_by_role("radio", name="English → German")).to_be_focused()
    visit.faults.clear()


@DESK
def test_the_last_choice_of_a_model_wins(visit: Visit):
    page = visit.open("book/live")
    box = load(page)
    held = []
    page.route("**/en-de.bin", lambda route: held.append(route))
    box.get_by_role("radio", name=re.compile("English → German")).click()
    page.wait_for_timeout(200)
    box.get_by_role("radio", name="German → English").click()
    expect(box.get_by_label("A caption in German")).to_be_visible()
    typed(box, CAT)
    held[0].continue_()
    page.wait_for_timeout(1500)
    expect(box.get_by_label("A caption in German")).to_have_value(CAT)
    expect(answers(box)).to_have_text(["a cat chases a woman."])


@DESK
def test_it_works_by_keyboard_alone_and_says_what_changes(visit: Visit):
    page = visit.open("book/live")
    page.get_by_role("button", name="Load the model").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="A caption in German")).to_be_focused(timeout=30_000)
    box = page.locator(".unmasked-live").first
    page.keyboard.press("Control+a")
    page.keyboard.type(CAT)
    expect(said(box)).to_have_text("Translation: “a cat chases a woman.”")
    read(box).nth(0).focus()
    page.keyboard.press("Space")
    expect(read(box).nth(0)).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("document.activeElement.textContent") == "eine"  # the place is kept
    page.keyboard.press("Space")
    box.get_by_role("checkbox", name="of the source").focus()
    page.keyboard.press("Space")
    expect(said(box)).to_have_text(
        "Without positions of the source: “a woman chases a cat.” "
        "The whole model: “a cat chases a woman.”"
    )


@DESK
def test_the_region_that_is_read_aloud_waits_until_typing_rests(visit: Visit):
    box = load(visit.open("book/live"))
    visit.page.evaluate(
        "region => { window.spoken = []; new MutationObserver(() =>"
        " spoken.push(region.textContent)).observe(region, { childList: true }); }",
        said(box).element_handle(),
    )
    box.get_by_role("textbox").first.fill("")
    box.get_by_role("textbox").first.press_sequentially("Zwei Hunde spielen.", delay=40)
    expect(said(box)).to_have_text("Translation: “two dogs are playing.”")
    assert len(visit.page.evaluate("spoken")) <= 3


@pytest.mark.parametrize(("theme", "size"), [("light", SIZES["wide"]), ("dark", SIZES["narrow"])])
def test_open_it_is_accessible_and_fits(visit: Visit):
    page = visit.page
    page.goto(f"{visit.site}/book/live.html#live?off=scale&search=beam&text=Ein+Hund+schl%C3%A4ft.")
    box = load(page)
    expect(answers(box)).to_have_count(2)
    chips(box, "Token by token").nth(1).click()
    assert overflow(page) <= 0
    assert faults_of_access(page, ".unmasked-live") == []


@DESK
def test_what_cannot_be_loaded_is_said_and_can_be_tried_again(visit: Visit):
    page = visit.open("book/live")
    page.route("**/de-en.bin", lambda route: route.fulfill(status=404, body=""))
    box = page.locator(".unmasked-live").first
    box.get_by_role("button", name="Load the model").click()
    expect(box).to_contain_text("The model could not be loaded: the server answered 404")
    page.unroute("**/de-en.bin")
    load(page)
    expect(box).not_to_contain_text("could not be loaded")
    assert [fault for fault in visit.faults if "404" in fault]
    visit.faults.clear()


@pytest.fixture
def plain(browser: Browser) -> Iterator[Page]:
    """A page that nobody serves, and whatever went wrong on it."""
    page = browser.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda r: faults.append(r.url) if r.url.startswith("http") else None)
    yield page
    assert faults == []
    page.close()


@pytest.mark.parametrize("name", ["intro", "live"])
def test_it_works_from_a_file(plain: Page, name: str):
    plain.goto((HTML / f"book/{name}.html").as_uri())
    box = load(plain)
    typed(box, CAT)
    expect(answers(box)).to_have_text(["a cat chases a woman."])


@pytest.mark.parametrize("model", ["de-en", "en-de"])
def test_it_works_in_the_sandboxed_output_of_a_notebook(plain: Page, model: str):
    plain.set_content('<iframe sandbox="allow-scripts" width="800" height="600"></iframe>')
    html = live(model)._repr_html_()
    plain.locator("iframe").evaluate("(frame, html) => { frame.srcdoc = html; }", html)
    box = plain.frame_locator("iframe").locator(".unmasked-live").first
    expect(answers(box).first).to_be_visible(timeout=30_000)
    text = CAT if model == "de-en" else "A cat chases a woman."
    typed(box, text)
    expect(answers(box)).to_have_text(translator(model).translate([text]))
    assert box.get_by_role("radio", name="German → English").count() == 0  # it brings one model


def test_without_scripts_the_page_says_so_and_keeps_its_figures(browser: Browser, site: str):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site}/book/live.html")
    assert page.locator("noscript p").bounding_box()["height"] > 10
    for chapter in ("01_masks", "02_positional_encoding", "03_attention", "09_decoding"):
        page.goto(f"{site}/book/{chapter}.html")
        figure = page.locator("div.cell_output:has(.unmasked-live) > img")
        figure.scroll_into_view_if_needed()
        assert figure.bounding_box()["height"] > 100
    context.close()


@DESK
@pytest.mark.parametrize(
    "chapter", ["01_masks", "02_positional_encoding", "03_attention", "09_decoding"]
)
def test_a_live_figure_replaces_the_still_one_but_not_on_paper(visit: Visit, chapter: str):
    page = visit.open(f"book/{chapter}")
    cell = page.locator("div.cell_output:has(.unmasked-live)")
    element, figure = cell.locator(".unmasked-live"), cell.locator("img")
    assert element.is_visible()
    assert not figure.is_visible()
    page.emulate_media(media="print")
    assert not element.is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function(
        "img => img.complete && img.naturalWidth > 0", arg=figure.element_handle()
    )
    assert figure.is_visible()

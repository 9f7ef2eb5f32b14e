"""The built pages as files: descriptions, formulas, headings, no script or address from outside."""

import re
import tomllib
from copy import copy
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont
from PIL import Image

import unmasked
from helpers.pages import BOOK, HTML, code_cells, notebooks, pages, repository

EVERY = pytest.mark.parametrize("name", pages())
CHAPTERS = pytest.mark.parametrize("name", notebooks())
OWNER, NAME = repository().split("/")[-2:]
SITE = f"https://{OWNER}.github.io/{NAME}"


@cache
def page(name):
    path = HTML / f"{name}.html"
    assert path.exists(), f"there is no {path.name} in {HTML}: run `make book`"
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@EVERY
def test_every_image_says_what_it_shows_and_has_its_place_before_it_is_loaded(name):
    """Else a link into the page lands somewhere else, on a slow line."""
    for image in page(name).select(".bd-article img"):
        assert len(image["alt"]) > 60, image
        assert not re.search(r"\.png|_images|[0-9a-f]{16}", image["alt"])
        with Image.open((HTML / name).parent / image["src"]) as opened:
            assert (int(image["width"]), int(image["height"])) == opened.size


@EVERY
def test_nothing_is_loaded_from_outside_or_without_need(name):
    loaded = "script[src], link[href]:not([rel=canonical]), img[src], iframe, source, video"
    for tag in page(name).select(loaded):
        address = tag.get("src") or tag.get("href")
        assert not re.match(r"(https?:)?//", address), tag
        if not address.startswith("data:"):
            file = (HTML / name).parent / address.split("?")[0]
            assert tag.get("rel") in (["next"], ["prev"]) or file.resolve().exists(), address
    scripts = " ".join(f"{s.get('src', '')} {s.text}" for s in page(name).select("script"))
    assert not re.search("fontawesome|thebe|mathjax|katex|require.js", scripts, re.IGNORECASE)


@EVERY
def test_formulas_are_mathml_and_no_tex_is_left(name):
    article = copy(page(name).select_one("article.bd-article"))
    for code in article.select("pre, code, script, math"):
        code.extract()
    assert not re.search(r"\$[^$\s]|\\(frac|sqrt|sum|omega|mathrm|begin)", article.text)


def test_every_character_of_a_formula_is_in_our_font():
    font = TTFont(BOOK / "_static/fonts/unmasked-math.woff2").getBestCmap()
    used = {c for name in pages() for math in page(name).select("math") for c in math.text}
    assert {c for c in used if not c.isspace() and ord(c) not in font} <= {"\u2061"}


@CHAPTERS
def test_every_figure_of_a_notebook_is_on_its_page_with_its_words(name):
    said = [cell.metadata.get("mystnb", {}) for cell in code_cells(name)]
    shown = [image["alt"] for image in page(f"book/{name}").select(".bd-article img")]
    assert shown == [words["image"]["alt"] for words in said if "image" in words]


@EVERY
def test_a_page_has_one_title_and_headings_that_nest(name):
    headings = page(name).select("article.bd-article :is(h1, h2, h3, h4)")
    levels = [int(heading.name[1]) for heading in headings]
    assert levels.count(1) == 1 == levels[0]
    assert all(b <= a + 1 for a, b in pairwise(levels))


@EVERY
def test_a_page_says_to_others_what_it_is(name):
    [canonical] = page(name).select('link[rel="canonical"]')
    [description] = page(name).select('meta[name="description"]')
    [image] = page(name).select('meta[property="og:image"]')
    assert canonical["href"] == f"{SITE}/{name}.html"
    assert 60 < len(description["content"]) <= 210
    assert (HTML / image["content"].removeprefix(f"{SITE}/")).exists()


def test_the_site_can_be_published_as_it_is():
    sitemap = (HTML / "sitemap.xml").read_text(encoding="utf-8")
    assert {f"{SITE}/{name}.html" for name in pages()} <= {*re.findall("<loc>(.*?)</loc>", sitemap)}
    assert (HTML / ".nojekyll").exists()
    assert "book/intro.html" in (HTML / "index.html").read_text(encoding="utf-8")


ADDRESSES = (Path(__file__).parent / "addresses.txt").read_text(encoding="utf-8").splitlines()

MOVED = tomllib.loads((BOOK / "moved.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("line", ADDRESSES, ids=lambda line: line.split()[0])
def test_links_to_the_second_edition_still_lead_there(line):
    name, *anchors = line.split()
    moved = MOVED.get(name, {"page": name})
    for anchor in anchors:
        other, _, heading = moved.get(anchor, f"#{anchor}").partition("#")
        there = page(f"book/{other or moved['page']}")
        assert not heading or there.find(id=heading), anchor


def test_a_wrong_address_leads_on_from_anywhere():
    """The page is shown at any depth, so its links begin at the root."""
    links = [a["href"] for a in page("404").select("a[href], link[href]")]
    local = [href for href in links if "//" not in href]
    assert all(href.startswith((f"/{NAME}/", "#")) for href in local)
    assert f"/{NAME}/book/03_attention.html" in local


def test_the_index_leads_to_every_term_and_no_chapter_is_without():
    terms = tomllib.loads((BOOK / "terms.toml").read_text(encoding="utf-8"))
    assert {*notebooks()} <= {*terms}
    links = {link.text: link["href"] for link in page("genindex").select(".indextable a")}
    for name, headings in terms.items():
        for term in (term for terms in headings.values() for term in terms):
            address, _, anchor = links[term].partition("#")
            assert address == f"book/{name}.html", term
            assert page(f"book/{name}").find(id=anchor), term


def test_the_package_page_has_what_is_offered_with_its_source_a_test_and_a_chapter():
    shown = {entry["id"].removeprefix("unmasked.") for entry in page("book/api").select("dt[id]")}
    names = {name.rpartition(".")[2] for name in shown}
    modules = {name.rpartition(".")[0].partition(".")[0] for name in shown}
    assert {*unmasked.__all__} - {"device", "PRESETS"} <= names | modules
    for entry in page("book/api").select("dl.py:has(> dt[id])"):
        words = [link.text for link in entry.dd.find_all("a")][:3]
        assert words[:2] == ["Source", "tests"], entry.dt["id"]
        assert re.fullmatch(r"chapter \d+", words[2])

"""Tests the descriptions, formulas and addresses of the built pages."""

import re
import tomllib
from copy import copy
from functools import cache
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont
from PIL import Image

from helpers.pages import BOOK, HTML, pages
from repository import current as repository

EVERY = pytest.mark.parametrize("name", pages())
OWNER, NAME = repository().split("/")[-2:]
SITE = f"https://{OWNER}.github.io/{NAME}"


@cache
def page(name):
    path = HTML / f"{name}.html"
    assert path.exists(), f"there is no {path.name} in {HTML}: run `make book`"
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@EVERY
def test_every_image_says_what_it_shows_and_has_its_place_before_it_is_loaded(name):
    """On a slow line, a link into the page would land elsewhere without the images' sizes."""
    for image in page(name).select(".bd-article img"):
        assert len(image["alt"]) > 60, image
        assert not re.search(r"\.png|_images|[0-9a-f]{16}", image["alt"])
        with Image.open((HTML / name).parent / image["src"]) as opened:
            assert (int(image["width"]), int(image["height"])) == opened.size


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

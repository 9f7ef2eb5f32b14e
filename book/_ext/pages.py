"""Makes the built pages lighter and easier to reach.

The theme loads a script of icons that its web fonts already hold, configures Thebe and brings
Sphinx-Design, which this book does not use: together 1.5 MB and a script error on each page. A few
things that a screen reader or a keyboard needs are missing; they are added here.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup
from PIL import Image
from sphinx.application import Sphinx
from sphinx.config import Config

MOVED = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>This page has moved</title>
<meta http-equiv="refresh" content="1; url={page}.html">
<script>
const headings = {headings};
location.replace(headings[location.hash.slice(1)] ?? "{page}.html" + location.hash);
</script>
</head>
<body><p><a href="{page}.html">This page has moved.</a></p></body>
</html>
"""
GROUP = {"tabindex": "0", "role": "group"}
ATTRIBUTES = {  # The keyboard reaches whatever scrolls; whatever is outside of a landmark gets one.
    "div.output pre, div.cell_input pre, div.highlight pre": {"tabindex": "0"},
    "div.cell_output:has(> img), p.stored-figure": {**GROUP, "aria-label": "figure"},
    ".bd-article .pst-scrollable-table-container": {**GROUP, "aria-label": "table"},
    ".sidebar-primary-item:has(> .navbar-brand)": {"role": "navigation", "aria-label": "Home"},
    ".dropdown-item img[alt]": {"alt": ""},  # the word stands beside the logo
    "div.cell_output:has(.unmasked-live) > img": {"loading": "lazy"},  # shown without scripts only
}
UNUSED = re.compile(r"fontawesome\.js|thebe|sphinx-design|design-tabs", re.IGNORECASE)


def label(page: BeautifulSoup) -> None:
    """Makes a page accessible by landmarks, labels and elements that the keyboard reaches."""
    for selector, attributes in ATTRIBUTES.items():
        for element in page.select(selector):
            element.attrs.update(attributes)
    for fold in page.select("details.hide > summary[aria-label]"):
        del fold["aria-label"]  # the same for all: what is folded says its own text
    for chapter in page.select("li.has-children > a + details > summary"):
        title = chapter.parent.find_previous_sibling("a").text.strip()
        chapter["aria-label"] = f"Pages below {title}"
    for cell in page.select("th"):
        if not cell.get_text(strip=True):
            cell.name = "td"  # a corner without words heads nothing
    for entry in page.select("div.citation-list, div.citation"):
        del entry["role"]  # roles that are no longer allowed there


def adapt(page: BeautifulSoup, folder: Path) -> None:
    """Adapts the theme's output to single pages, pictures and folds."""
    for body in page.select("body[data-bs-spy]"):
        if page.select_one(".bd-sidebar-secondary a"):
            body["data-bs-target"] = ".bd-sidebar-secondary"  # else all links follow the reader
        else:
            del body["data-bs-spy"]
    for words in page.select("details.hide > summary > .collapsed"):
        if words.text == "Show the solution":
            words.find_parent("details")["class"].append("solution")  # which is open on paper
    for image in page.select('img[src$=".png"]:not([width])'):
        with Image.open(folder / unquote(image["src"])) as opened:  # links land where they should
            image["width"], image["height"] = map(str, opened.size)
    for title in page.select("title"):  # a page that only leads on has none
        first, _, second = title.text.partition(" — ")
        if first == second:  # the front page is called like the book
            title.string = first


def mend(path: Path, site: str) -> None:
    page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    for script in page.find_all("script"):
        parts = [script.get("src", ""), script.get("type", ""), script.text]
        if UNUSED.search(" ".join(parts)) or script.text.startswith("kernelName"):
            script.decompose()
    for link in page.find_all("link", href=UNUSED):
        link.decompose()
    seen = set()  # the theme repeats some of its inline scripts
    for script in page.find_all("script", src=False):
        if script.text in seen:
            script.decompose()
        seen.add(script.text)
    label(page)
    adapt(page, path.parent)
    if path.parent.name == "book":  # links to the published one lead to the page beside it
        for link in page.select(f'a[href^="{site}book/"]'):
            link["href"] = link["href"].removeprefix(f"{site}book/").replace("&amp;", "&")  # twice
    path.write_text(str(page), encoding="utf-8")


def lead_on(source: Path, out: Path) -> None:
    """Writes a page at each address of the second edition that is another today."""
    moved = tomllib.loads((source / "moved.toml").read_text(encoding="utf-8"))
    for name, led_to in moved.items():
        page = led_to.pop("page")
        for heading, target in led_to.items():
            other, _, place = target.partition("#")
            led_to[heading] = f"{other or page}.html#{place}"
        written = MOVED.format(page=page, headings=json.dumps(led_to))
        (out / f"{name}.html").write_text(written, encoding="utf-8")


def finish(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    out = Path(app.outdir)
    (out / ".nojekyll").touch()  # GitHub Pages must serve the folders that begin with "_"
    for path in out.rglob("*.html"):
        mend(path, app.config.html_baseurl)
    lead_on(Path(app.srcdir) / "book", out / "book")


def follow_the_address(_: Sphinx, config: Config) -> None:
    """Tells link previews, and the page for wrong addresses, the address of the book."""
    config.ogp_site_url = config.html_baseurl
    config.ogp_image = f"{config.html_baseurl}_static/card.png"
    config.notfound_urls_prefix = urlsplit(config.html_baseurl).path


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", follow_the_address, priority=100)
    app.connect("build-finished", finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Modules become one script: each once, in order, with the styles that belong to them."""

import re

import pytest

from unmasked_book.live import bundle as bundling
from unmasked_book.live.bundle import HERE, bundle


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes these files, and bundles the last of them."""

    def write(**files):
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text)
        return bundle(name.replace("_", "."))

    monkeypatch.setattr(bundling, "HERE", tmp_path)
    bundle.cache_clear()
    yield write
    bundle.cache_clear()


def test_a_script_cannot_end_its_own_tag_and_two_of_one_name_are_refused(written):
    assert "</script" not in written(a_js='const tag = "</script>";\n')
    twice = 'import { a } from "./a.js";\nfunction* twice() {}\n'
    with pytest.raises(ValueError, match=r"twice .* a\.js and in b\.js"):
        written(a_js="export const twice = 1;\n", b_js=twice)


@pytest.mark.parametrize("path", sorted(HERE.glob("*/*.js")), ids=lambda path: path.name)
def test_a_module_asks_nobody_for_anything(path):
    text = path.read_text(encoding="utf-8")
    addresses = "http://www.w3.org/2000/svg", "https://github.com/transformer-unmasked/"  # a link
    assert "http" not in re.sub("|".join(addresses), "", text)

"""Modules become one script: each once, in order, with the styles that belong to them."""

import re

import pytest

from unmasked_book.live.bundle import HERE, bundle


def test_a_script_cannot_end_its_own_tag_and_two_of_one_name_are_refused(tmp_path):
    (tmp_path / "a.js").write_text('export const tag = "</script>";\n')
    assert "</script" not in bundle(f"{tmp_path}/a.js")
    (tmp_path / "b.js").write_text('import { tag } from "./a.js";\nfunction* tag() {}\n')
    with pytest.raises(ValueError, match=r"b\.js define tag"):
        bundle(f"{tmp_path}/b.js")


@pytest.mark.parametrize("path", sorted(HERE.glob("*/*.js")), ids=lambda path: path.name)
def test_a_module_asks_nobody_for_anything(path):
    text = path.read_text(encoding="utf-8")
    addresses = "http://www.w3.org/2000/svg", "https://github.com/transformer-unmasked/"  # a link
    assert "http" not in re.sub("|".join(addresses), "", text)

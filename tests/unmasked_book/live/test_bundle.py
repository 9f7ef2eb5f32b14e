"""Modules become one script: each once, in order, with the styles that belong to them."""

import pytest

from unmasked_book.live import bundle as bundling
from unmasked_book.live.bundle import HERE, bundle


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(bundling, "HERE", tmp_path)
    bundle.cache_clear()
    yield tmp_path
    bundle.cache_clear()


def test_what_is_imported_stands_first_and_once(here):
    (here / "a.js").write_text("// What it is.\nexport const a = 1; // stays\n\n  a + 1;\n")
    (here / "b.js").write_text(
        'import { a } from "./a.js";\nexport function b() {\n  return a;\n}\n'
    )
    (here / "c.js").write_text(
        'import { a } from "./a.js";\nimport { b } from "./b.js";\ndress("@CSS@");\nb(a);\n'
    )
    (here / "b.css").write_text('p { content: "x"; }\n')
    script = bundle("c.js")
    assert script == (
        '(function () {\n"use strict";\n// a.js\nconst a = 1; // stays\na + 1;\n\n'
        "// b.js\nfunction b() {\nreturn a;\n}\n\n"
        '// c.js\ndress("p { content: \\"x\\"; }\\n");\nb(a);\n})();\n'
    )


def test_two_of_one_name_are_refused(here):
    (here / "a.js").write_text("export const twice = 1;\n")
    (here / "b.js").write_text('import { a } from "./a.js";\nfunction* twice() {}\n')
    with pytest.raises(ValueError, match=r"twice is defined in a\.js and in b\.js"):
        bundle("b.js")


def test_a_script_cannot_end_its_own_tag(here):
    (here / "a.js").write_text('const tag = "</script>";\n')
    assert "</script" not in bundle("a.js")


@pytest.mark.parametrize("path", sorted(HERE.glob("*/*.js")), ids=lambda path: path.name)
def test_the_modules_keep_to_what_the_bundler_understands(path):
    text = path.read_text(encoding="utf-8")
    assert "import(" not in text
    assert "export default" not in text
    assert "export {" not in text
    for line in text.splitlines():
        assert len(line) <= 120, line
        assert not line.startswith("import") or line.endswith('.js";'), line
    assert text.startswith("// ")  # says what it is for
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")  # asks nobody for anything

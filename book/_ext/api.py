"""Behind each docstring of the API page: its source, its tests, and its chapter."""

from pathlib import Path
from typing import Any

from named import address_of, find
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
CHAPTERS = {
    "masks": "01_masks",
    "positions": "02_positional_encoding",
    "attention": "03_attention",
    "feed_forward": "04_feed_forward",
    "encoder": "05_encoder",
    "decoder": "06_decoder",
    "transformer": "07_transformer",
    "config": "07_transformer",
    "interop": "07_transformer",
    "tokens": "10_real_text",
    "loss": "08_training",
    "training": "08_training",
    "training.run": "10_real_text",
    "search": "09_decoding",
    "text": "10_real_text",
    "translator": "10_real_text",
    "evaluation": "11_is_it_better",
    "plots": "12_looking_inside",
    "checking": "17_testing",
}


def chapter_of(module: str) -> str:
    """The page that explains what this module, seen from the package, holds."""
    return CHAPTERS.get(module) or CHAPTERS[module.partition(".")[0]]


def test_of(root: Path, module: str, name: str) -> Path | None:
    """The tests of its module; else the first file that names it."""
    tests = root / "tests/unmasked"
    mirrored = (tests / module.replace(".", "/")).with_suffix(".py")
    mirrored = mirrored.with_name(f"test_{mirrored.name}")
    if mirrored.exists():
        return mirrored
    named = (path for path in sorted(tests.rglob("test_*.py")) if name in path.read_text("utf-8"))
    return next(named, None)


def links(app: Sphinx, _: str, name: str, *rest: Any) -> None:
    lines = rest[-1]
    root = Path(app.srcdir)
    path, line = find(root, "source", name)
    module = path.removeprefix("src/unmasked/").removesuffix(".py").replace("/", ".")
    tests = test_of(root, module, name.rpartition(".")[2])
    if tests is None:
        logger.warning("api.md: no test names %s", name)
        return
    chapter = chapter_of(module)
    source = address_of(app.config, path, line)
    test = address_of(app.config, tests.relative_to(root).as_posix(), 1)
    lines += [
        "",
        f"`Source <{source}>`__ · `tests <{test}>`__ · "
        f":doc:`chapter {int(chapter[:2])} <{chapter}>`",
        "",
    ]


def setup(app: Sphinx) -> dict[str, Any]:
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.napoleon")  # the lists of arguments
    app.connect("autodoc-process-docstring", links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

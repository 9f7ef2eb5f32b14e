"""Adds links to source, tests and chapter to each docstring of the API page."""

from pathlib import Path
from typing import Any

from named import address_of, find
from sphinx.application import Sphinx

CHAPTERS = {  # a chapter → the modules that it explains
    "01_masks": "masks", "02_positional_encoding": "positions", "03_attention": "attention",
    "04_feed_forward": "feed_forward", "05_encoder": "encoder", "06_decoder": "decoder looks",
    "07_transformer": "transformer config interop", "08_training": "loss training",
    "09_decoding": "search", "10_real_text": "tokens training.run text translator",
    "11_is_it_better": "evaluation", "12_looking_inside": "plots", "17_testing": "checking testing",
}  # fmt: skip
EXPLAINED = {module: chapter for chapter, names in CHAPTERS.items() for module in names.split()}


def test_of(root: Path, module: str, name: str) -> Path:
    """Returns the tests of a module; else the first that name `name`, or the whole model's."""
    tests = root / "tests/unmasked"
    *folders, file = module.split(".")
    mirrored = tests.joinpath(*folders, f"test_{file}.py")
    if mirrored.exists():
        return mirrored
    named = (path for path in sorted(tests.rglob("test_*.py")) if name in path.read_text("utf-8"))
    return next(named, tests / "test_transformer.py")


def links(app: Sphinx, _: str, name: str, *rest: Any) -> None:
    lines = rest[-1]
    root = Path(app.srcdir)
    path, line = find(root, "source", name)
    module = path.removeprefix("src/unmasked/").removesuffix(".py").replace("/", ".")
    tests = test_of(root, module, name.rpartition(".")[2])
    chapter = EXPLAINED.get(module) or EXPLAINED[module.partition(".")[0]]
    source = address_of(app.config, path, line)
    test = address_of(app.config, tests.relative_to(root).as_posix(), 1)
    about = f":doc:`chapter {int(chapter[:2])} <{chapter}>`"
    lines += ["", f"`Source <{source}>`__ · `tests <{test}>`__ · {about}", ""]


def setup(app: Sphinx) -> dict[str, Any]:
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.napoleon")  # the lists of arguments
    app.connect("autodoc-process-docstring", links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

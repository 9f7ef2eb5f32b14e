"""Where the built book is, and which pages it has."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
BOOK = ROOT / "book"
HTML = ROOT / "_build/html"


def toc() -> list[str]:
    """The pages in reading order, such as "book/01_masks"."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter["file"] for part in contents["parts"] for chapter in part["chapters"]]
    return [contents["root"], *chapters]

"""Writes the address of the repository everywhere: pyproject.toml holds it, the rest follows."""

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
ADDRESS = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")


def current() -> str:
    """Returns the address that pyproject.toml states."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    address: str = project["urls"]["Repository"]
    return address


def notebooks() -> list[Path]:
    """Returns the book's notebooks, without copies in Jupyter's hidden folders."""
    book = ROOT / "book"
    return sorted([*book.glob("*.ipynb"), *book.glob("[!.]*/*.ipynb")])


def text_files(*options: str) -> list[str]:
    """Returns a line of `git grep` for every file with text: the file's name comes first."""
    command = ["git", "grep", "-I", *options, ""]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return listed.stdout.splitlines()


def forms(address: str) -> list[str]:
    """Returns the parts of links to GitHub, Colab and Binder, and of the site's, that change."""
    match = ADDRESS.fullmatch(address)
    if not match:
        sys.exit(f"URL: expected https://github.com/OWNER/NAME, got {address!r}")
    owner, name = match.groups()
    return [f"{owner}/{name}", f"{owner}.github.io/{name}"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: make repository URL=https://github.com/OWNER/NAME"
    )
    parser.add_argument("url", nargs="?", help="the new address (default: show it)")
    url = parser.parse_args().url
    if not url:
        print(current())
        return
    changes = list(zip(forms(current()), forms(url), strict=True))
    for name in text_files("--files-with-matches", "--untracked"):
        path = ROOT / name
        before = after = path.read_text(encoding="utf-8")
        for old, new in changes:
            after = after.replace(old, new)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"stamped {name}")


if __name__ == "__main__":
    main()

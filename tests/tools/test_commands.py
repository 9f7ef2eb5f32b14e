"""Each tool explains itself, and does what it is for, once, in a small copy of the repository."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from helpers.pages import ROOT, repository

INSTALL = f'%pip install "unmasked[text] @ git+{repository()}"\n'


class House:
    """A folder with the tools and a few files; commands run in it."""

    def __init__(self, folder: Path):
        self.folder = folder
        shutil.copytree(ROOT / "tools", folder / "tools")
        (folder / "book/_static").mkdir(parents=True)
        (folder / "src/unmasked").mkdir(parents=True)
        for name in ("pyproject.toml", "CITATION.cff", "src/unmasked/__init__.py"):
            shutil.copy(ROOT / name, folder / name)
        (folder / "CHANGELOG.md").write_text("# Changes\n\n## Unreleased\n")
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)

    def run(self, tool: str, *words: str):
        command = [sys.executable, f"tools/{tool}", *words]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True)

    def write(self, name: str, *sources: str) -> Path:
        cells = [new_code_cell(source, id=f"c{i}") for i, source in enumerate(sources)]
        path = self.folder / f"book/{name}.ipynb"
        nbformat.write(new_notebook(cells=cells), path)
        return path


@pytest.fixture
def house(tmp_path):
    return House(tmp_path)


FIGURE = """
class Figure:
    _repr_png_ = lambda self: b"\\x89PNG"
    __repr__ = lambda self: "from 1 to 2"
Figure()"""
CHANGED = {"print(1)": "print(2)", "3": "4", FIGURE: FIGURE.replace("to 2", "to 3")}


def test_a_notebook_is_stored_alike_each_time_and_what_is_no_longer_true_is_noticed(house):
    """Printed text, values, the words of a figure."""
    path, again = (house.write(name, *CHANGED) for name in ("a", "b"))
    assert house.run("notebooks.py").returncode == 0
    assert path.read_bytes() == again.read_bytes()
    notebook = nbformat.read(path, as_version=4)
    alt = notebook.cells[2].metadata["mystnb"]["image"]["alt"]
    assert alt == "from 1 to 2"
    for cell in notebook.cells:
        cell.source = CHANGED[cell.source]
    nbformat.write(notebook, path)
    compare = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    compare += ["--rootdir", str(house.folder), "--nbval", "--nbval-current-env", str(path)]
    found = subprocess.run(compare, capture_output=True, text=True)
    assert f"{len(CHANGED)} failed" in found.stdout


def test_a_notebook_that_fails_is_named_and_left_as_it_was(house):
    path = house.write("bad", "1 / 0")
    before = path.read_bytes()
    done = house.run("notebooks.py", "bad")
    assert (done.returncode, path.read_bytes()) == (1, before)
    assert "ZeroDivisionError" in done.stderr


def test_a_release_is_stamped_everywhere_and_checked_against_its_tag(house):
    path = house.folder / "book/a.ipynb"
    path.write_text(INSTALL)
    assert house.run("release.py", "stamp", "9.9.9").returncode == 0
    assert path.read_text() == INSTALL.replace('"\n', '@v9.9.9"\n')
    for name, line in (
        ("src/unmasked/__init__.py", '__version__ = "9.9.9"'),
        ("CITATION.cff", "version: 9.9.9"),
        ("CHANGELOG.md", r"## 9\.9\.9 \(\d{4}-\d\d-\d\d\)"),
    ):
        assert re.search(f"^{line}$", (house.folder / name).read_text("utf-8"), re.MULTILINE)
    assert "expected v9.9.9" in house.run("release.py", "check", "v9.9.8").stderr
    assert house.run("release.py", "unpin").returncode == 0
    assert path.read_text() == INSTALL

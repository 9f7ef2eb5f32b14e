"""What the README shows runs, and gives the shapes it names."""

import re
from pathlib import Path

from unmasked import PRESETS

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_example_runs():
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    names = {}
    exec(example, names)
    assert names["logits"].shape == (2, 3, 8000)
    assert names["maps"].cross[0].shape == (2, 8, 3, 4)
    assert names["best"].tokens.shape[:2] == (2, 1)


def test_every_preset_is_named():
    assert all(f'"{name}"' in README for name in PRESETS)


def test_every_file_of_the_package_is_on_the_map():
    package = Path(__file__).parent.parent / "src" / "unmasked"
    files = {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    named = set(re.findall(r"`([\w/]+\.py)`", README))
    assert {name for name in files if not name.endswith("__init__.py")} == named

"""What the README shows runs, says what it says there, and quotes what was recorded."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from unmasked_book import recorded

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def printed(code):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {"__name__": "readme"})
    return out.getvalue()


def test_the_translation_is_the_one_that_is_shown():
    [shown] = re.findall(r"^# (\[.*\])$", CODE[0], re.MULTILINE)
    assert printed(CODE[0]) == f"{shown}\n"


def test_the_report_is_the_one_that_is_shown():
    [shown] = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert printed(CODE[1]) == shown


def test_the_files_of_the_model_are_listed_in_the_order_of_the_chapters():
    listed = re.findall(r"^\| \[`(\w+)\.py`\]", README, re.MULTILINE)
    names = ["masks", "positions", "attention", "feed_forward", "encoder", "decoder", "transformer"]
    assert listed == names


def test_every_folder_and_every_file_of_the_top_level_is_named():
    package = ROOT / "src/unmasked"
    folders = {path.name for path in package.iterdir() if path.is_dir()} - {"__pycache__"}
    [line] = [line for line in README.splitlines() if line.startswith("Beside them:")]
    assert set(re.findall(r"`(\w+)/`", line)) == folders
    files = {path.name for path in package.glob("[a-z]*.py")}
    named = set(re.findall(r"`(\w+\.py)`", README.split("## Why")[0]))
    assert files <= named


@pytest.mark.parametrize(("name", "direction"), [("de-en", "German to"), ("en-de", "English to")])
def test_the_scores_are_the_recorded_ones(name, direction):
    score = recorded(f"multi30k-{name}")["float16"]["test_2016_flickr"]["beam 5"]
    assert re.search(rf"{score:.2f} from {direction}", README)


def test_the_speeds_are_the_recorded_ones():
    """A range is from the smallest to the largest ratio of its kind."""
    goals = [goal for work in recorded("cpu")["works"] for goal in work["goals"]]
    kinds = {
        ("unmasked", "nn.Transformer"): "is {}–{}× as fast as `nn.Transformer`",
        ("unmasked, packed", "nn.Transformer"): "({}–{}× with padding left out)",
        ("unmasked", "MarianMT"): "search is {}–{}× as fast as MarianMT",
    }
    for (ours, theirs), words in kinds.items():
        found = sorted(g["measured"] for g in goals if (g["ours"], g["theirs"]) == (ours, theirs))
        ends = (f"{found[0]:.2f}", f"{found[-1]:.2f}")
        assert words.format(*ends) in " ".join(README.split())


def test_the_speeds_beside_c_are_the_recorded_ones():
    for name, words in (("c-cpu", "it reaches {}–{} times the speed on one thread of an AMD EPYC"),
                        ("c-intel", "and {}–{} times on one of an Intel Xeon")):  # fmt: skip
        goals = [goal["measured"] for work in recorded(name)["works"] for goal in work["goals"]]
        prose = re.sub(r" \(\[[^)]*\)[^)]*\)", "", " ".join(README.split()))
        assert words.format(f"{min(goals):.2f}", f"{max(goals):.2f}") in prose

"""What every notebook must be, whatever it is about: run, portable, described, repeatable."""

import re
from itertools import pairwise

import pytest
from pages import BOOK, ROOT, code_cells, notebook, notebooks, pages, repository

LONGEST = 20  # lines of a code cell
IGNORE = "nbval-ignore-output"
CHAPTERS = pytest.mark.parametrize("name", notebooks())


def outputs(name):
    return [output for cell in code_cells(name) for output in cell.outputs]


def test_every_notebook_is_a_page_and_every_page_exists():
    listed = [page.removeprefix("book/") for page in pages()]
    assert sorted(set(notebooks())) == sorted(p for p in listed if (BOOK / f"{p}.ipynb").exists())
    for page in listed:
        assert (BOOK / f"{page}.ipynb").exists() != (BOOK / f"{page}.md").exists()


@CHAPTERS
def test_it_was_run_from_top_to_bottom(name):
    counts = [cell.execution_count for cell in code_cells(name)]
    assert counts == list(range(1, len(counts) + 1))
    for cell in code_cells(name):
        for output in cell.outputs:
            assert output.get("execution_count", cell.execution_count) == cell.execution_count


@CHAPTERS
def test_no_cell_failed_or_warned(name):
    for output in outputs(name):
        assert output.output_type != "error"
        assert output.get("name") != "stderr", output.text


@CHAPTERS
def test_cells_are_short(name):
    lengths = [len(cell.source.splitlines()) for cell in code_cells(name)]
    assert max(lengths) <= LONGEST
    assert 1 <= sorted(lengths)[len(lengths) // 2] <= 8


@CHAPTERS
def test_the_first_code_cell_installs_the_package_where_it_is_missing(name):
    first = code_cells(name)[0]
    assert first.source == (
        "import importlib.util\n\n"
        'if importlib.util.find_spec("unmasked") is None:\n'
        f"    %pip install --quiet git+{repository()}"
    )
    assert first.outputs == []


@CHAPTERS
def test_markdown_is_portable(name):
    """Colab, Jupyter and GitHub know no directives, roles, labels or colon fences."""
    for cell in notebook(name).cells:
        if cell.cell_type != "markdown":
            continue
        text = re.sub(r"`[^`]*`", "", cell.source)
        assert not re.search(r"```+\{|~~~+\{|^:::", cell.source, re.MULTILINE)
        assert not re.search(r"\{[\w:-]+\}`", cell.source)
        assert not re.search(r"^\([\w-]+\)=|^% |\[\^|\{\{", text, re.MULTILINE)
        assert cell.source.count("$") % 2 == 0


@CHAPTERS
def test_headings_nest(name):
    text = "\n".join(cell.source for cell in notebook(name).cells if cell.cell_type == "markdown")
    levels = [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert re.match(rf"# {int(name[:2])}\. ", notebook(name).cells[0].source)


@CHAPTERS
def test_every_figure_says_what_it_shows(name):
    figures = 0
    for cell in code_cells(name):
        for output in cell.outputs:
            kinds = output.get("data", {})
            if "image/png" in kinds or "text/html" in kinds:
                words = kinds["text/plain"]
                assert len(words) > 60
                assert "<unmasked" not in words
                figures += 1
            if "image/png" in kinds:
                assert cell.metadata["mystnb"]["image"]["alt"] == words
            if "text/html" in kinds:
                assert "aria-label" in kinds["text/html"]
    assert figures


@CHAPTERS
def test_plots_come_from_the_package(name):
    for cell in code_cells(name):
        assert not re.search(r"matplotlib|pyplot|seaborn|plotly|\bplt\.|\.imshow\(", cell.source)


@CHAPTERS
def test_what_is_not_compared_is_asserted(name):
    """After cells whose output may differ, and before the next heading, something is asserted."""
    waiting = None
    for cell in notebook(name).cells:
        if cell.cell_type == "markdown":
            assert not (waiting and "\n## " in cell.source), f"nothing asserts what {waiting} shows"
            continue
        if IGNORE in cell.metadata.get("tags", []):
            waiting = cell.id
        elif re.search(r"^\s*assert ", cell.source, re.MULTILINE):
            waiting = None
        assert "NBVAL" not in cell.source
    assert waiting is None


@CHAPTERS
def test_nothing_stored_names_a_place_or_a_time(name):
    text = (BOOK / f"{name}.ipynb").read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|Users|tmp)/|0x[0-9a-f]{8}|iopub\.|\d\d:\d\d:\d\d", text)
    assert set(notebook(name).metadata) == {"kernelspec", "language_info"}
    assert set(notebook(name).metadata.language_info) == {"name"}


@CHAPTERS
def test_a_chapter_has_its_parts(name):
    text = "\n".join(cell.source for cell in notebook(name).cells if cell.cell_type == "markdown")
    headings = re.findall(r"^## (.*)", text, re.MULTILINE)
    for part in ("The idea", "The equation", "By hand", "On a GPU", "Exercises", "In five lines"):
        assert part in headings
    assert any(heading.startswith("It equals") for heading in headings)
    assert any(heading.startswith("Break it") for heading in headings)
    assert headings.index("What the five documents say") > headings.index("Exercises")
    lines = text.split("## In five lines\n\n")[1].split("\n\n")[0].splitlines()
    assert len(lines) <= 5


@CHAPTERS
def test_each_of_three_exercises_waits_and_has_a_folded_solution_that_is_right(name):
    cells = {cell.id: cell for cell in code_cells(name)}
    for number in (1, 2, 3):
        waiting, solution = cells[f"exercise-{number}"], cells[f"solution-{number}"]
        assert waiting.outputs[-1].text.endswith(f"{number}: your turn.\n")
        assert f"{number}: right.\n" in solution.outputs[0].text
        assert solution.metadata["tags"] == ["hide-cell"]  # the book
        assert solution.metadata["jupyter"] == {"source_hidden": True}  # JupyterLab
        assert solution.metadata["cellView"] == "form"  # Colab
        assert solution.source.startswith("# @title Solution\n")


@CHAPTERS
def test_the_tests_that_a_chapter_names_exist(name):
    text = "\n".join(cell.source for cell in notebook(name).cells)
    named = set(re.findall(r"`(test_erratum_\d\d)`", text))
    assert named
    have = (ROOT / "tests/unmasked_book/test_errata.py").read_text(encoding="utf-8")
    for test in named:
        assert f"def {test}" in have


def test_all_errata_that_belong_to_a_chapter_are_in_it():
    belong = {
        "01_masks": [3, 4, 11, 15, 18, 22],
        "02_positional_encoding": [8, 10, 16, 19],
        "03_attention": [1, 2, 12, 20],
        "04_feed_forward": [6, 9],
        "05_encoder": [5, 13, 14, 17],
        "06_decoder": [7, 18, 19, 21, 23],
    }
    for name, numbers in belong.items():
        text = "\n".join(cell.source for cell in notebook(name).cells)
        assert set(re.findall(r"`test_erratum_(\d\d)`", text)) == {f"{n:02}" for n in numbers}

"""What every notebook must be, whatever it is about: run, portable, described, repeatable."""

import re
from copy import deepcopy
from itertools import pairwise

import nbformat
import pytest

import unmasked
from helpers.pages import BOOK, ROOT, code_cells, notebook, notebooks, pages, repository
from notebooks import normalise

LONGEST, LONGEST_FOLDED, LONGEST_PROJECT = 20, 30, 60  # lines of a code cell
LONGEST_PROSE = 4300  # words
PROJECT = ("exercise-project", "solution-project")
IGNORE = "nbval-ignore-output"
FOLDED = {"hide-cell", "hide-input"}
NUMBERED = [name for name in notebooks() if name[:2] not in ("00", "15")]  # with exercises
CHAPTERS = pytest.mark.parametrize("name", notebooks())


def outputs(name):
    return [output for cell in code_cells(name) for output in cell.outputs]


def markdown(name):
    return "\n\n".join(c.source for c in notebook(name).cells if c.cell_type == "markdown")


def sections(name):
    return re.findall(r"^## (.*)", markdown(name), re.MULTILINE)


def tags(cell):
    return cell.metadata.get("tags", [])


def printed(cell):
    return "".join(output.get("text", "") for output in cell.outputs)


def words(text):
    """How many words of prose: no code blocks, formulas, tables, boxes or addresses."""
    text = re.sub(r"<details.*?</details>|```.*?```|\$\$.*?\$\$", " ", text, flags=re.DOTALL)
    text = re.sub(r"\$[^$]*\$|^\s*\|.*$|<[^>]*>|\]\([^)]*\)", " ", text, flags=re.MULTILINE)
    return len([word for word in text.split() if re.search(r"\w", word)])


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
    lengths = []
    for cell in code_cells(name):
        lengths.append(len(cell.source.splitlines()))
        folded = FOLDED & {*tags(cell)}
        longest = LONGEST_FOLDED if folded else LONGEST
        assert lengths[-1] <= (LONGEST_PROJECT if cell.id in PROJECT else longest), cell.id
    assert 1 <= sorted(lengths)[len(lengths) // 2] <= 8


@CHAPTERS
def test_the_first_code_cell_installs_the_package_where_it_is_missing(name):
    first = code_cells(name)[0]
    assert first.id == "install"
    pin = f"@v{unmasked.__version__}" if "@v" in first.source else ""
    assert tags(first) == ["hide-cell"]
    assert first.source == (
        "# @title Install the package where it is missing, on Colab for example\n"
        "import importlib.util\n\n"
        'if importlib.util.find_spec("unmasked") is None:\n'
        f'    %pip install --quiet "unmasked[text] @ git+{repository()}{pin}"'
    )
    assert first.outputs == []


@CHAPTERS
def test_the_imports_are_folded(name):
    importing = [
        cell
        for cell in code_cells(name)[1:]
        if re.search(r"^(import|from) ", cell.source, re.MULTILINE)
    ]
    assert tags(importing[0]) == ["hide-input"]
    assert importing[0].source.startswith("# @title Imports\n")


@CHAPTERS
def test_a_cell_is_folded_everywhere_or_nowhere(name):
    """On the page, in JupyterLab and on Colab; and its first line says what it is."""
    for cell in code_cells(name):
        marks = [
            len(FOLDED & {*tags(cell)}) == 1,  # the book
            cell.metadata.get("jupyter") == {"source_hidden": True},  # JupyterLab
            cell.metadata.get("cellView") == "form",  # Colab
            bool(re.match(r"# @title \S.*\n", cell.source)),  # all of them
        ]
        assert all(marks) == any(marks), f"{cell.id}: folded by some of the marks only"
        whole = cell.id.startswith(("solution-", "install", "list-"))  # with what it prints
        assert ("hide-cell" in tags(cell)) == whole, cell.id
        assert {*tags(cell)} <= {*FOLDED, IGNORE}, cell.id


@CHAPTERS
def test_it_is_stored_as_the_tool_stores_it(name):
    """The words of its pictures and of its folded cells are those that `make notebooks` writes."""
    again = deepcopy(notebook(name))
    normalise(again)
    text = nbformat.writes(again, version=4) + "\n"
    assert text == (BOOK / f"{name}.ipynb").read_text(encoding="utf-8")


@CHAPTERS
def test_markdown_is_portable(name):
    """Colab, Jupyter and GitHub know no directives, roles, labels or colon fences."""
    assert "@@" not in markdown(name)  # what was still to be filled in
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
    levels = [len(marks) for marks in re.findall(r"^(#+) ", markdown(name), re.MULTILINE)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    number = int(name[:2])
    title = rf"# {number}\. " if number else r"# A first look\b"
    assert re.match(title, notebook(name).cells[0].source)


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
    text = re.sub(r'"image/png": "[^"]*"', "", text)  # in so many letters, anything can be found
    assert not re.search(r"/(home|root|Users|tmp)/|0x[0-9a-f]{8}|iopub\.|\d\d:\d\d:\d\d", text)
    assert set(notebook(name).metadata) == {"kernelspec", "language_info"}
    assert set(notebook(name).metadata.language_info) == {"name"}


@CHAPTERS
def test_something_runs_on_the_gpu_where_there_is_one(name):
    """A cell whose output is compared."""
    cells = [c for c in code_cells(name) if IGNORE not in tags(c)]
    assert any("device()" in cell.source for cell in cells)


@CHAPTERS
def test_what_left_the_chapters_stays_out_and_prose_is_brief(name):
    assert not {"On a GPU", "What the five documents say"} & {*sections(name)}
    assert words(markdown(name)) <= LONGEST_PROSE


def test_words_are_those_of_the_prose():
    text = "## Two *words*\n\nSee [this page](a.md) – and $a + b$.\n\n| a | b |\n|---|---|\n\n"
    text += "$$x\n+ y$$\n\n```sh\nmake x\n```\n\n<details><summary>Why</summary>\n\nSo.\n</details>"
    assert words(text) == 6


@pytest.mark.parametrize("name", [name for name in notebooks() if name not in NUMBERED])
def test_the_first_look_and_the_gallery_have_no_exercises(name):
    assert "Exercises" not in sections(name)
    assert not any(cell.id.startswith(("exercise-", "solution-")) for cell in code_cells(name))


@pytest.mark.parametrize("name", NUMBERED)
def test_a_chapter_ends_with_exercises_and_five_lines(name):
    headings = sections(name)
    assert headings.index("In five lines") > headings.index("Exercises")
    lines = markdown(name).split("## In five lines\n\n")[1].split("\n\n")[0].splitlines()
    assert 1 <= len(lines) <= 5


@pytest.mark.parametrize(
    ("name", "which"),
    [(name, which) for name in NUMBERED for which in ("1", "2", "3", "project")],
)
def test_each_exercise_waits_and_has_a_folded_solution_that_is_right(name, which):
    cells = {cell.id: cell for cell in code_cells(name)}
    waiting, solution = cells[f"exercise-{which}"], cells[f"solution-{which}"]
    assert printed(waiting).endswith(f"{which}: your turn.\n")
    assert f"{which}: right.\n" in printed(solution)
    assert tags(solution) == ["hide-cell"]  # and so folded everywhere
    assert solution.source.startswith("# @title Solution\n")


@CHAPTERS
def test_the_tests_that_a_chapter_names_exist(name):
    text = "\n".join(cell.source for cell in notebook(name).cells)
    named = set(re.findall(r"`(test_erratum_\d\d)`", text))
    have = (ROOT / "tests/unmasked_book/test_errata.py").read_text(encoding="utf-8")
    for test in named:
        assert f"def {test}" in have

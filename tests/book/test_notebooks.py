"""What every notebook must be, whatever it is about: run, portable, described, repeatable."""

import re

import pytest

import unmasked
from helpers.pages import BOOK, code_cells, notebook, notebooks, prose, repository

IGNORE = "nbval-ignore-output"
FOLDED = {"hide-cell", "hide-input"}
NUMBERED = [name for name in notebooks() if name[:2] not in ("00", "15")]  # with exercises
CHAPTERS = pytest.mark.parametrize("name", notebooks())


def tags(cell):
    return {*cell.metadata.get("tags", [])}


def printed(cell):
    return "".join(output.get("text", "") for output in cell.outputs)


@CHAPTERS
def test_it_was_run_from_top_to_bottom_and_no_cell_failed_or_warned(name):
    cells = code_cells(name)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr", output.text
            assert output.get("execution_count", cell.execution_count) == cell.execution_count


@CHAPTERS
def test_nothing_stored_names_a_place_or_a_time(name):
    text = (BOOK / f"{name}.ipynb").read_text(encoding="utf-8")
    text = re.sub(r'"image/png": "[^"]*"', "", text)  # in so many letters, anything can be found
    assert not re.search(r"/(home|root|Users|tmp)/|0x[0-9a-f]{8}|iopub\.|\d\d:\d\d:\d\d", text)


@CHAPTERS
def test_the_first_code_cell_installs_the_package_where_it_is_missing(name):
    first = code_cells(name)[0]
    pin = f"@v{unmasked.__version__}" if "@v" in first.source else ""
    assert first.source == (
        "# @title Install the package where it is missing, on Colab for example\n"
        "import importlib.util\n\n"
        'if importlib.util.find_spec("unmasked") is None:\n'
        f'    %pip install --quiet "unmasked[text] @ git+{repository()}{pin}"'
    )
    assert (first.id, tags(first), first.outputs) == ("install", {"hide-cell"}, [])


@CHAPTERS
def test_it_runs_on_the_one_package_and_on_a_gpu_where_there_is_one(name):
    """Plots come from it, too, and in a cell whose output is compared something uses the GPU."""
    code = [cell.source for cell in code_cells(name)]
    assert re.search(r"^(import|from) unmasked\b", "\n".join(code), re.MULTILINE)
    assert not re.search(r"matplotlib|pyplot|seaborn|plotly|\bplt\.|\.imshow\(", "\n".join(code))
    assert any("device()" in cell.source for cell in code_cells(name) if IGNORE not in tags(cell))


@CHAPTERS
def test_a_cell_is_folded_everywhere_or_nowhere(name):
    """On the page, in JupyterLab and on Colab; and its first line says what it is."""
    for cell in code_cells(name):
        marks = [
            len(FOLDED & tags(cell)) == 1,  # the book
            cell.metadata.get("jupyter") == {"source_hidden": True},  # JupyterLab
            cell.metadata.get("cellView") == "form",  # Colab
            bool(re.match(r"# @title \S.*\n", cell.source)),  # all of them
        ]
        assert all(marks) == any(marks), f"{cell.id}: folded by some of the marks only"
        whole = cell.id.startswith(("solution-", "install", "list-"))  # with what it prints
        assert ("hide-cell" in tags(cell)) == whole, cell.id
        assert tags(cell) <= {*FOLDED, IGNORE}, cell.id


@CHAPTERS
def test_markdown_is_portable(name):
    """Colab, Jupyter and GitHub know no directives, roles, labels or colon fences."""
    for cell in notebook(name).cells:
        if cell.cell_type == "markdown":
            text = re.sub(r"`[^`]*`", "", cell.source)
            assert not re.search(r"```+\{|~~~+\{|^:::", cell.source, re.MULTILINE)
            assert not re.search(r"\{[\w:-]+\}`", cell.source)
            assert not re.search(r"^\([\w-]+\)=|^% |\[\^|\{\{|@@", text, re.MULTILINE)
            assert cell.source.count("$") % 2 == 0


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
def test_what_is_not_compared_is_asserted(name):
    """After cells whose output may differ, and before the next heading, something is asserted."""
    waiting = None
    for cell in notebook(name).cells:
        if cell.cell_type == "markdown":
            assert not (waiting and "\n## " in cell.source), f"nothing asserts what {waiting} shows"
            continue
        if IGNORE in tags(cell):
            waiting = cell.id
        elif re.search(r"^\s*assert ", cell.source, re.MULTILINE):
            waiting = None
        assert "NBVAL" not in cell.source
    assert waiting is None


@pytest.mark.parametrize("name", NUMBERED)
def test_each_exercise_waits_and_has_a_folded_solution_that_is_right(name):
    cells = {cell.id: cell for cell in code_cells(name)}
    assert "\n## Exercises" in prose(name)
    for which in ("1", "2", "3", "project"):
        assert printed(cells[f"exercise-{which}"]).endswith(f"{which}: your turn.\n")
        assert f"{which}: right.\n" in printed(cells[f"solution-{which}"])

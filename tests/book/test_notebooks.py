"""Tests that every notebook was run, is portable, installs the package and has solutions."""

import re

import pytest

import unmasked
from helpers.pages import BOOK, code_cells, notebook, notebooks
from repository import current as repository

WITHOUT_EXERCISES = ("00", "16", "de", "wo")  # the first look, bugs, deeper pages, the workshop
NUMBERED = [name for name in notebooks() if not name.startswith(WITHOUT_EXERCISES)]
CHAPTERS = pytest.mark.parametrize("name", notebooks())


@CHAPTERS
def test_it_was_run_from_top_to_bottom_and_no_cell_failed_or_warned(name):
    cells = code_cells(name)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr", output.text


@CHAPTERS
def test_nothing_stored_names_a_place_or_a_time(name):
    text = (BOOK / f"{name}.ipynb").read_text(encoding="utf-8")
    text = re.sub(r'"image/png": "[^"]*"', "", text)  # in so many letters, anything can be found
    assert not re.search(r"/(home|root|Users|tmp)/|0x[0-9a-f]{8}|iopub\.|\d\d:\d\d:\d\d", text)


@CHAPTERS
def test_the_first_code_cell_installs_the_package_where_it_is_missing(name):
    first = code_cells(name)[0]
    assert 'if importlib.util.find_spec("unmasked") is None:\n    %pip install' in first.source
    assert repository() in first.source
    assert ("@v" in first.source) == (f"@v{unmasked.__version__}" in first.source)
    assert first.outputs == []


@CHAPTERS
def test_markdown_is_portable(name):
    """Colab, Jupyter and GitHub know no directives, roles, labels or colon fences."""
    for cell in notebook(name).cells:
        if cell.cell_type == "markdown":
            text = re.sub(r"`[^`]*`", "", cell.source)
            assert not re.search(r"```+\{|~~~+\{|^:::|\{[\w:-]+\}`", cell.source, re.MULTILINE)
            assert not re.search(r"^\([\w-]+\)=|^% |\[\^|\{\{|@@", text, re.MULTILINE)
            assert cell.source.count("$") % 2 == 0


@pytest.mark.parametrize("name", NUMBERED)
def test_each_exercise_waits_and_has_a_folded_solution_that_is_right(name):
    cells = {cell.id: cell for cell in code_cells(name)}
    exercises = [cell for cell in cells if cell.startswith("exercise-")]
    assert exercises
    for cell in exercises:
        which = cell.removeprefix("exercise-").replace("plus", "+").replace("-", " ")
        assert f"{which}: your turn.\n" in str(cells[cell].outputs[-1]["text"])
        solution = cells[cell.replace("exercise", "solution")]
        assert any(f"{which}: right.\n" in output["text"] for output in solution.outputs)

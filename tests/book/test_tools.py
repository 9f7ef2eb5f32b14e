"""The tools that keep the book true: running, comparing, stamping."""

import re
import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import architecture
import colab
import notebooks as runner
import release
import repository
import versions
from helpers.pages import ROOT


def write(path, *sources):
    cells = [new_code_cell(source, id=f"c{i}") for i, source in enumerate(sources)]
    nbformat.write(new_notebook(cells=[new_markdown_cell("# T", id="t"), *cells]), path)
    return path


SHOW = "import unmasked; from unmasked_book import show; show(unmasked.device)"
FIGURE = "from unmasked import plots\nplots.curves({'a': [1, 2]}, xlabel='x', ylabel='y')"


def test_running_stores_outputs_words_and_the_same_bytes_each_time(tmp_path):
    path = write(tmp_path / "a.ipynb", "print('one'); print('two')", FIGURE)
    stored = []
    for _ in range(2):
        assert runner.run(path, timeout=60) is None
        stored.append(path.read_bytes())
    assert stored[0] == stored[1]
    cells = nbformat.read(path, as_version=4).cells
    assert cells[1].outputs[0].text == "one\ntwo\n"
    assert cells[2].metadata["mystnb"]["image"]["alt"].startswith("y over x. a goes from 1")
    assert b"iopub" not in stored[0]


def folded(source, tag="hide-input", **more):
    metadata = {"cellView": "form", "jupyter": {"source_hidden": True}, "tags": [tag]}
    return new_code_cell(source, metadata=metadata, **more)


def test_a_folded_cell_says_what_it_hides_and_keeps_the_words_of_its_picture():
    picture = new_output("display_data", data={"image/png": "", "text/plain": "y over x."})
    cells = [
        folded("# @title Imports\nimport math", "hide-input"),
        folded("# @title The curve\nmath.pi", "hide-input", outputs=[picture]),
        folded("# @title Solution\nmath.e", "hide-cell"),
        new_code_cell("# @title Not folded\n1"),
        folded("# @title Checks of what the text says\nassert math.e < 3"),
        folded("# @title the numbers\nmath.tau", "hide-cell", id="list-numbers"),
    ]
    runner.normalise(new_notebook(cells=cells))
    said = [cell.metadata.get("mystnb") for cell in cells]
    assert said[0] == {
        "code_prompt_show": "Show the code: Imports",
        "code_prompt_hide": "Hide the code: Imports",
    }
    assert said[1]["code_prompt_show"] == "Show the code: The curve"
    assert said[1]["image"] == {"alt": "y over x."}
    assert said[2:4] == [None, None]  # a solution has the words of _config.yml
    assert said[4]["code_prompt_show"] == "✓ Checked (show how)"
    assert said[5]["code_prompt_hide"] == "Hide the numbers"
    before = [dict(cell.metadata) for cell in cells]
    runner.normalise(new_notebook(cells=cells))
    assert [dict(cell.metadata) for cell in cells] == before


def test_a_notebook_that_fails_is_named_and_left_as_it_was(tmp_path, capsys):
    path = write(tmp_path / "bad.ipynb", "1 / 0")
    before = path.read_bytes()
    assert runner.run(path, timeout=60) == "bad"
    assert path.read_bytes() == before
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_an_unknown_notebook_is_refused_with_the_known_ones():
    with pytest.raises(SystemExit, match=r"no notebook '99_none'.*there are: .*01_masks"):
        runner.find("99_none")


CHANGED = {
    "print(1)": "print(2)",
    "3": "4",
    FIGURE: FIGURE.replace("[1, 2]", "[1, 3]"),
    SHOW: SHOW.replace("device)", "show)"),
}


def test_the_comparison_notices_a_stored_output_that_is_no_longer_true(tmp_path):
    """Printed text, values, the words of a figure, the source that is shown."""
    path = write(tmp_path / "a.ipynb", *CHANGED)
    assert runner.run(path, timeout=60) is None
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    command += ["--rootdir", str(tmp_path), "--nbval", "--nbval-current-env", str(path)]
    assert subprocess.run(command, capture_output=True).returncode == 0
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = CHANGED.get(cell.source, cell.source)
    nbformat.write(notebook, path)
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 1
    assert f"{len(CHANGED)} failed" in found.stdout


def test_stamping_writes_the_new_address_everywhere(tmp_path, monkeypatch, capsys):
    old, new = repository.current(), "https://github.com/someone/elsewhere"
    texts = {
        "pyproject.toml": f'[project]\nname = "x"\n[project.urls]\nRepository = "{old}"\n',
        "a.md": f"[code]({old}/blob/main/a.py) https://colab.research.google.com/github/"
        + old.removeprefix("https://github.com/"),
        "b.md": "nothing",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.setattr(repository, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["repository.py", new])
    repository.main()
    assert repository.current() == new
    assert (tmp_path / "a.md").read_text().count("someone/elsewhere") == 2
    assert capsys.readouterr().out == "stamped a.md\nstamped pyproject.toml\n"


@pytest.mark.parametrize(
    "url", ["github.com/a/b", "https://gitlab.com/a/b", "https://github.com/a"]
)
def test_an_address_of_another_shape_is_refused(url):
    with pytest.raises(SystemExit, match=r"expected https://github\.com/OWNER/NAME"):
        repository.forms(url)


SEVEN = ("masks", "positions", "attention", "feed_forward", "encoder", "decoder", "transformer")


def test_every_command_explains_itself():
    for path in sorted((ROOT / "tools").glob("*.py")):
        command = [sys.executable, path, "--help"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "usage:" in text


def test_the_picture_of_the_readme_is_that_of_the_diagram():
    """Else run tools/architecture.py again."""
    assert architecture.TARGET.read_text(encoding="utf-8") == architecture.picture()
    files = set(re.findall(r">(\w+\.py)<", architecture.picture()))
    assert files == {f"{name}.py" for name in SEVEN}


def requirements():
    """Each requirement with its hashes."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    return re.findall(r"^(\w\S*)==(\S+)(.*(?:\n    .*)*)", text, re.MULTILINE)


def test_every_requirement_is_pinned_with_hashes_and_none_is_missing():
    pins = requirements()
    assert all("--hash=sha256:" in rest for _, _, rest in pins)
    names = {name for name, _, _ in pins}
    assert {each.replace("_", "-") for each in versions.direct()} <= names
    assert {"jupyter-book", "nbval", "pytest", "playwright", "brotli", "uv"} <= names
    assert not [name for name in names if name.startswith(("nvidia", "cuda", "triton"))]


def test_colab_is_tried_with_the_pinned_versions():
    pins = {f"{name}=={version}" for name, version, _ in requirements()}
    assert len(colab.pinned()) == len(colab.PROVIDED)
    assert set(colab.pinned()) <= pins


def test_a_release_is_stamped_everywhere_and_checked_against_its_tag(tmp_path, monkeypatch):
    for path in (release.VERSION, release.CITATION, release.CHANGES):
        new = tmp_path / path.relative_to(ROOT)
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(path.read_bytes())
    (tmp_path / "book").mkdir()
    install = tmp_path / "book/a.ipynb"
    install.write_text(f'%pip install "unmasked[text] @ git+{repository.current()}"\n')
    monkeypatch.setattr(release, "ROOT", tmp_path)
    for name in ("VERSION", "CITATION", "CHANGES"):
        path = getattr(release, name)
        monkeypatch.setattr(release, name, tmp_path / path.relative_to(ROOT))
    with pytest.raises(SystemExit, match=r"the tag: expected v\d"):
        release.agree("v9.9.9")
    release.stamp("9.9.9")
    release.agree("v9.9.9")
    assert install.read_text().endswith('@v9.9.9"\n')
    assert release.stated() == "9.9.9"
    release.pin("")
    assert install.read_text().endswith(repository.current() + '"\n')
    with pytest.raises(SystemExit, match=r"a\.ipynb: its first cell"):
        release.agree("v9.9.9")


def test_the_scripts_of_the_live_page_are_installed_with_the_package():
    """What a wheel would lack is missing in Colab. In a checkout the files lie where they are."""
    listed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for pattern in ("live/engine/*.js", "live/widgets/*"):
        assert pattern in listed
        assert list((ROOT / "src/unmasked_book").glob(pattern))

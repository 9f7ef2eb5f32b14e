"""Runs the book's notebooks in place and stores their outputs: the same bytes each time."""

import argparse
import os
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from repository import notebooks

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
FOLDED = {"hide-cell", "hide-input"}  # tags
VERBS = ("Show", "Hide")
CHECKS = "Checks of what the text says"  # on nearly every page, and often: a short mark


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python tools/notebooks.py 01_masks"
    )
    parser.add_argument("names", nargs="*", help="notebooks, such as 01_masks (default: all)")
    paths = chosen(parser.parse_args().names)
    os.environ["OMP_NUM_THREADS"] = "1"  # one thread each, so that sums are added in one order
    os.environ["TQDM_DISABLE"] = "1"  # progress is for those who wait
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = [name for name in pool.map(run, paths) if name]
    if failed:
        sys.exit(f"not stored, because a cell failed: {', '.join(failed)}")


def chosen(names: list[str]) -> list[Path]:
    """Returns the notebooks of these names; all notebooks if there are no names."""
    known = {path.stem: path for path in notebooks()}
    for name in names:
        if Path(name).stem not in known:
            sys.exit(f"there is no notebook {name!r} in book/; there are: {', '.join(known)}")
    return [known[Path(name).stem] for name in names] or list(known.values())


def run(path: Path) -> str | None:
    """Runs one notebook in an empty folder; returns its name if a cell failed."""
    began = time.perf_counter()
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        try:
            NotebookClient(notebook, timeout=300, coalesce_streams=True).execute(cwd=folder)
        except Exception as error:  # whatever went wrong, the other notebooks go on
            print(f"{path.name}: {error}", file=sys.stderr)
            return path.stem
    normalise(notebook)
    nbformat.write(notebook, path, version=4)
    print(f"{path.name}: {time.perf_counter() - began:.0f} s", flush=True)
    return None


def normalise(notebook: NotebookNode) -> None:
    """Drops whatever differs from run to run; gives pictures words, and folds titles."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        for key in ("execution", "collapsed", "scrolled", "mystnb"):
            cell.metadata.pop(key, None)
        shown = prompts(cell)
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                shown["image"] = {"alt": "".join(output.data["text/plain"])}
        if shown:
            cell.metadata["mystnb"] = nbformat.from_dict(shown)


def prompts(cell: NotebookNode) -> dict[str, Any]:
    """Returns the words that stand for a folded cell; `_config.yml` has those of a solution."""
    title = re.match(r"# @title (.+)", cell.source)
    if not title or title[1] == "Solution" or not FOLDED & {*cell.metadata.get("tags", [])}:
        return {}
    if title[1] == CHECKS:
        return {f"code_prompt_{verb.lower()}": f"✓ Checked ({verb.lower()} how)" for verb in VERBS}
    what = title[1] if cell.id.startswith("list-") else f"the code: {title[1]}"
    return {f"code_prompt_{verb.lower()}": f"{verb} {what}" for verb in VERBS}


if __name__ == "__main__":
    main()

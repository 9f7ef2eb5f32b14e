"""Runs the book's notebooks in place and stores their outputs: the same bytes each time."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

BOOK = Path(__file__).parents[1] / "book"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python tools/notebooks.py 01_masks"
    )
    parser.add_argument("names", nargs="*", help="notebooks, such as 01_masks (default: all)")
    parser.add_argument("--timeout", type=int, default=300, help="seconds a cell may take (300)")
    options = parser.parse_args()
    paths = chosen(options.names)
    os.environ["OMP_NUM_THREADS"] = "1"  # one thread each, so that sums are added in one order
    os.environ["TQDM_DISABLE"] = "1"  # progress is for those who wait
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = [name for name in pool.map(lambda path: run(path, options.timeout), paths) if name]
    if failed:
        sys.exit(f"not stored, because a cell failed: {', '.join(failed)}")


def chosen(names: list[str]) -> list[Path]:
    """The notebooks of these names; all of them if there are none."""
    return [find(name) for name in names] or sorted(BOOK.glob("*.ipynb"))


def find(name: str) -> Path:
    path = BOOK / Path(name).with_suffix(".ipynb").name
    if not path.exists():
        known = ", ".join(sorted(path.stem for path in BOOK.glob("*.ipynb")))
        sys.exit(f"there is no notebook {name!r} in {BOOK.name}/; there are: {known}")
    return path


def run(path: Path, timeout: int) -> str | None:
    """Runs one notebook in an empty folder; its name if a cell failed."""
    began = time.perf_counter()
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        options = {"timeout": timeout, "resources": resources, "coalesce_streams": True}
        client = NotebookClient(notebook, **options)
        try:
            client.execute()
        except Exception as error:  # whatever went wrong, the other notebooks go on
            print(f"{path.name}: {error}", file=sys.stderr)
            return path.stem
    normalise(notebook)
    text = nbformat.writes(notebook, version=4) + "\n"
    path.write_text(text, encoding="utf-8")
    print(f"{path.name}: {time.perf_counter() - began:.0f} s", flush=True)
    return None


def normalise(notebook: NotebookNode) -> None:
    """Drops what differs from run to run, and gives each picture its own words as alt text."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        for key in ("execution", "collapsed", "scrolled"):
            cell.metadata.pop(key, None)
        cell.metadata.pop("mystnb", None)
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                words = "".join(output.data["text/plain"])
                cell.metadata["mystnb"] = {"image": {"alt": words}}


if __name__ == "__main__":
    main()

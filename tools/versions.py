"""Runs tests and notebooks with the lowest or the newest versions that pyproject.toml allows.

Each Python gets an environment of its own, with the package installed from its wheel. Notebooks
are run, but their outputs not compared: those belong to the versions in requirements.txt.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from repository import ROOT

UV = Path(sys.executable).with_name("uv")
OPTIONS = {"lowest": ["--resolution", "lowest-direct"], "newest": ["--upgrade"]}
ASKED = ["--requirement", "pyproject.toml", "--extra", "test"]
# Warnings of other versions are not errors here.
TESTS = ["tests/unmasked", "tests/unmasked_book", "-n", "auto", "-W", "default"]
NOTEBOOKS = ["book", "--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=300",
             "-n", "auto", "--dist", "loadfile", "-W", "default"]  # fmt: skip
PARTS = {"tests": TESTS, "notebooks": NOTEBOOKS}


def uv(*words: str | Path) -> None:
    subprocess.run([UV, *words], check=True, cwd=ROOT)


def environment(which: str, version: str, wheel: Path) -> Path:
    """A new environment with these versions; its Python."""
    folder = ROOT / f".venv-{which}" / version
    uv("venv", "--quiet", "--clear", "--python", version, folder)
    python = folder / "bin" / "python"
    install = ["pip", "install", "--quiet", "--no-build", "--python", python]
    uv(*install, *OPTIONS[which], *ASKED)  # what a file names is direct, and so the lowest
    uv(*install, "--no-deps", wheel)
    return python


def results(which: str, version: str, parts: list[str], wheel: Path) -> Iterator[str]:
    """Shows what is installed; then a line for each part, which says how it ended."""
    python = environment(which, version, wheel)
    uv("pip", "freeze", "--python", python)
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    for part in parts:
        began = time.perf_counter()
        run = [python, "-m", "pytest", "--quiet", *PARTS[part]]
        code = subprocess.run(run, cwd=ROOT, env=one_thread).returncode
        minutes = (time.perf_counter() - began) / 60
        said = "passed" if code == 0 else "FAILED"
        yield f"{said}: {part}, Python {version} ({minutes:.0f} min)"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python tools/versions.py newest 3.13 --only tests",
    )  # fmt: skip
    parser.add_argument("which", choices=OPTIONS, help="which versions")
    parser.add_argument("pythons", nargs="+", help="such as 3.12; uv finds or fetches them")
    parser.add_argument("--only", choices=PARTS, help="a part (default: both)")
    options = parser.parse_args()
    parts = [options.only] if options.only else list(PARTS)
    found: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        uv("build", "--quiet", "--out-dir", folder)
        [wheel] = Path(folder).glob("*.whl")
        for version in options.pythons:
            found += results(options.which, version, parts, wheel)
    print(*found, sep="\n")
    sys.exit(any(line.startswith("FAILED") for line in found))


if __name__ == "__main__":
    main()

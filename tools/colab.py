"""Runs notebooks as Colab would: torch is there, the package is not, the folder is empty.

Each notebook's own install cell is run for real. It names the public repository; git takes a clone
of this checkout's last commit instead, so that the code that is here is tested. With `--load 2`,
two processes compute beside it all the time, as on a machine that others use too.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from notebooks import chosen
from repository import ROOT, current

# Colab brings these packages along; a notebook must not change them.
PROVIDED = ("torch", "numpy", "matplotlib", "ipykernel", "nbclient", "setuptools")


def python_in(folder: Path) -> Path:
    """Makes an environment with Colab's packages in our versions; returns its Python."""
    print("making an environment with torch, without the package …", flush=True)
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pinned = [f"{name}=={version(name).partition('+')[0]}" for name in PROVIDED]
    subprocess.run([*pip, *pinned], check=True)
    return python


def redirected(clone: Path) -> dict[str, str]:
    """Returns environment variables by which git takes the clone for the public repository."""
    subprocess.run(["git", "clone", "--quiet", "--bare", ROOT, clone], check=True)
    instead = {"KEY_0": f"url.file://{clone}.insteadOf", "VALUE_0": current(), "COUNT": "1"}
    return {**os.environ, **{f"GIT_CONFIG_{name}": value for name, value in instead.items()}}


def installed(python: Path) -> set[str]:
    """Returns all packages of the environment, with their versions."""
    command = [python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Lets several processes compute until the end."""
    command = [sys.executable, "-c", "while True: sum(range(10**6))"]
    running = [subprocess.Popen(command) for _ in range(processes)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python tools/colab.py 01_masks"
    )
    parser.add_argument("names", nargs="*", help="notebooks, such as 01_masks (default: all)")
    parser.add_argument("--load", type=int, default=0, help="busy processes beside it (0)")
    options = parser.parse_args()
    paths = chosen(options.names)
    with tempfile.TemporaryDirectory() as temporary, busy(options.load):
        folder = Path(temporary)
        python = python_in(folder / "venv")
        environment = redirected(folder / "clone.git")
        before = installed(python)
        for path in paths:
            subprocess.run([python, "-m", "pip", "uninstall", "-qqy", "unmasked"], check=True)
            alone = folder / path.stem
            alone.mkdir()
            shutil.copy(path, alone)
            run = [folder / "venv/bin/jupyter", "execute", path.name, "--timeout=900"]
            began = time.perf_counter()
            done = subprocess.run(run, cwd=alone, env=environment, capture_output=True, text=True)
            seconds = time.perf_counter() - began
            if done.returncode:
                sys.exit(f"{path.name} failed:\n{done.stdout}{done.stderr}")
            after = installed(python)
            if not any(line.startswith("unmasked==") for line in after):
                sys.exit(f"{path.name} ran, but not with a package that it had installed")
            if changed := before - after:
                sys.exit(f"{path.name} changed what Colab had: {', '.join(sorted(changed))}")
            print(f"{path.name}: installed the package and ran, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()

"""Runs notebooks as Colab would: torch is there, the package is not, the folder is empty.

Each notebook's own install cell is run for real. It names the public repository; git is told to
take a clone of this checkout's last commit instead, so that what is tested is what is here. With
`--load 2`, two processes compute beside it all the time, as on a machine that others use too.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from notebooks import chosen
from repository import ROOT, current

# What Colab brings along: its own torch among them, which must stay as it is.
PROVIDED = ("torch", "numpy", "matplotlib", "ipykernel", "nbclient", "setuptools")


def pinned() -> list[str]:
    """The versions of requirements.txt, for what is provided."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE))
    return [f"{name}=={pins[name]}" for name in PROVIDED]


def python_in(folder: Path) -> Path:
    """A new environment with what Colab provides; the path of its Python."""
    print("making an environment with torch, without the package …", flush=True)
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *pinned()], check=True)
    return python


def redirected(clone: Path) -> dict[str, str]:
    """An environment in which git takes the clone for the public repository."""
    subprocess.run(["git", "clone", "--quiet", "--bare", ROOT, clone], check=True)
    return {
        **os.environ,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{clone}.insteadOf",
        "GIT_CONFIG_VALUE_0": current(),
    }


def installed(python: Path) -> dict[str, str]:
    """Name → version of everything in the environment."""
    command = [python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(line.split("==") for line in listed.splitlines() if "==" in line)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes compute until the end."""
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
            (alone / path.name).write_bytes(path.read_bytes())
            run = [folder / "venv/bin/jupyter", "execute", path.name, "--timeout=900"]
            began = time.perf_counter()
            done = subprocess.run(run, cwd=alone, env=environment, capture_output=True, text=True)
            seconds = time.perf_counter() - began
            if done.returncode:
                sys.exit(f"{path.name} failed:\n{done.stdout}{done.stderr}")
            after = installed(python)
            if "unmasked" not in after:
                sys.exit(f"{path.name} ran, but not with a package that it had installed")
            changed = {name for name in before if after.get(name) != before[name]}
            if changed - {"unmasked"}:
                sys.exit(f"{path.name} changed what Colab had: {', '.join(sorted(changed))}")
            print(f"{path.name}: installed the package and ran, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()

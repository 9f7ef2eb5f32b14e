"""How long a search is in matrix products, ours and CTranslate2's, by the log of MKL itself.

Example: python benchmarks/mkl_log.py --record c-products

For Intel's processors, on which both call this library. Each search runs in a process of its own,
on one thread. The log makes them slower, and its times a little longer: compare them with each
other, not with `run.py`.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import subprocess
import sys
from importlib.metadata import version
from statistics import median
from typing import Any

from command import command
from unmasked.training.machine import machine
from unmasked_book.records import record

ENGINES = ("unmasked", "CTranslate2")
SEARCHES = ("greedy-256", "one-256", "greedy-512")  # works of `run.py`
BEGIN, END = b"the search begins\n", b"the search ends\n"
LINE = re.compile(r"^MKL_VERBOSE ([SD]GEMM\w*)\(.*\) ([\d.]+)(ns|us|ms|s) ", re.MULTILINE)
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def of_log(log: str) -> dict[str, float]:
    """The seconds in products, how many there were, and the seconds in which weights were packed.

    Only what stands between the two marks counts.
    """
    _, _, rest = log.partition(BEGIN.decode())
    search, end, _ = rest.partition(END.decode())
    if not end:
        raise SystemExit(f"the search did not end:\n{log[-2000:]}")
    calls = [(name, float(time) * UNITS[unit]) for name, time, unit in LINE.findall(search)]
    if not calls:
        raise SystemExit("MKL logged nothing: this needs a processor by Intel")
    multiplied = [seconds for name, seconds in calls if "PACK" not in name]
    return {
        "products": sum(multiplied),
        "calls": len(multiplied),
        "packing": sum(seconds for name, seconds in calls if "PACK" in name),
    }


def search(engine: str, name: str) -> None:
    """One search between two marks, after two that warm it up."""
    import torch

    from works import WORKS

    torch.set_num_threads(1)
    torch.manual_seed(0)  # as in `run.py`: the same weights
    [work] = (work for work in WORKS if work.name == f"c-{name}")
    run = work.prepare("cpu")[engine]
    for _ in range(2):
        run()
    mark(BEGIN)
    run()
    mark(END)


def mark(text: bytes) -> None:
    """After whatever the library has written so far."""
    ctypes.CDLL(None).fflush(None)
    os.write(1, text)


def logged(engine: str, name: str, repeats: int) -> dict[str, Any]:
    words = [sys.executable, __file__, "--search", name, "--engine", engine]
    environment = {**os.environ, "MKL_VERBOSE": "1"}
    found = []
    for _ in range(repeats):
        run = subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE)
        found.append(of_log(run.stdout.decode(errors="replace")))
    middle = {key: median(each[key] for each in found) for key in found[0]}
    return {"search": name, "engine": engine, "repeats": repeats, **middle}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, help="of which the median counts (3)")
    parser.add_argument("--record", metavar="NAME", help="write NAME.json among the records")
    parser.add_argument("--search", choices=SEARCHES, help=argparse.SUPPRESS)  # the process within
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.search:
        search(options.engine, options.search)
        return
    found = []
    for name in SEARCHES:
        for engine in ENGINES:
            found.append(logged(engine, name, options.repeats))
            print(found[-1], flush=True)
    if options.record:
        peer = {"ctranslate2": version("ctranslate2")}
        about = {**machine("cpu"), **peer, "threads": 1, "command": command(__file__)}
        print(f"recorded in {record(options.record, {'machine': about, 'searches': found})}")


if __name__ == "__main__":
    main()

"""Measures the package on one GPU, in eight minutes: equality, speed, memory.

Writes gpu.json after every row, so that what ran stays when time is up. Needs no network.
"""

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as fused
from torch.utils.flop_counter import FlopCounterMode

import unmasked
from peers import Marian, Ours, Torch, ragged, sizes, training_step
from timing import Run, command, interleaved, precision, say
from unmasked.attention import attention
from unmasked.loss import translation_loss
from unmasked.machine import device, machine
from unmasked.search import beam, greedy, sample
from unmasked_book.captions import caption_pairs
from unmasked_book.records import as_json

Row = dict[str, Any]
HERE = device()
SIZES = {
    "small": sizes(256, 4, 3, 1024),
    "base": sizes(512, 8, 6, 2048, 37_000),
    "big": sizes(1024, 16, 6, 4096, 37_000),
}
TRAINED: dict[str, Any] = {"unmasked": Ours, "unmasked, packed": Ours, "nn.Transformer": Torch}
NAMES = ("equality", "training", "searches", "attention", "notebooks")
ROOT = Path(__file__).parents[1]


@dataclass
class Parts:
    """Parts has a method for each part, the most valuable first, which yields rows."""

    small: bool

    def equality(self) -> Iterator[Row]:
        """Compares with the CPU, in float32 without TF32; rounding may tip a sentence."""
        for name, bound, measure in (
            ("tests for GPUs that fail", 0, self.tests),
            ("logits and gradients equal the CPU's, relative", 1e-4, self.parity),
            ("first choices that bfloat16 changes, share", 0.03, self.bfloat16),
            ("greedy: sentences that differ", 1, lambda: self.differ(greedy)),
            ("beam of five: sentences that differ", 1,
             lambda: self.differ(lambda m, s: beam(m, s, 5).tokens[:, 0])),
            ("samples: sentences that differ", 1, lambda: self.differ(sample, seed=1, top_p=0.9)),
        ):  # fmt: skip
            found = float(measure())
            yield {"what": name, "found": found, "bound": bound, "right": found <= bound}

    def tests(self) -> int:
        """Counts failures in the tests of masks, packing, products, search and the whole model."""
        where = "tests/unmasked" if HERE.type != "cpu" else "tests/unmasked/test_one_forward.py"
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", HERE.type, where]
        done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
        say(done.stdout.splitlines()[-1])
        return done.stdout.count("\nFAILED") + done.stdout.count("\nERROR")

    def both(self, run: Callable[..., Any], dtype: Any = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Runs the shipped model on the captions: pairs each result here with the CPU's."""
        results = []
        for where, kind in ((HERE, dtype), ("cpu", None)):
            translator = unmasked.load("de-en")
            batch = (x.to(where) for x in translator.corpus(caption_pairs(translator)).batch())
            model = translator.model.to(where, kind)
            results.append([x.detach().cpu() for x in run(model, *batch)])
        return zip(*results, strict=True)

    def parity(self) -> float:
        def run(model: Any, source: Tensor, target: Tensor) -> list[Tensor]:
            logits = model(source, target[:, :-1])
            translation_loss(model, source, target, smoothing=0.1).backward()
            return [logits, *(p.grad for p in model.parameters() if p.grad is not None)]

        return max(((a - b).abs().max() / b.abs().max()).item() for a, b in self.both(run))

    def bfloat16(self) -> float:
        def run(model: Any, source: Tensor, target: Tensor) -> list[Tensor]:
            with torch.no_grad():
                return [model(source, target[:, :-1]).argmax(-1)[target[:, 1:] != 0]]

        [(half, whole)] = self.both(run, torch.bfloat16)
        return (half != whole).float().mean().item()

    def differ(self, search: Callable[..., Tensor], **options: Any) -> int:
        pairs = self.both(lambda model, source, _: search(model, source, **options))
        return sum(a[a != 0].tolist() != b[b != 0].tolist() for a, b in pairs)

    def training(self) -> Iterator[Row]:
        """Times training on ragged rows (8 to 48 words); operations are each model's own."""
        names = ("float32",) if self.small else ("float32", "TF32", "bfloat16")
        peaks = {name: self.peak(name) for name in names}
        yield {"what": "products of two matrices", "operations a second": peaks}
        works = [*product(SIZES, (800,), peaks)]
        works += [("base", rows, "bfloat16") for rows in (25, 100, 400, 1600, 3200, 6400)]
        for work in [("small", 8, "float32")] if self.small else works:
            yield from self.steps(*work, peaks)

    def peak(self, name: str) -> float:
        n, times = 256 if self.small else 8192, 8  # one alone and a GPU's clock counts for much
        with precision(name) as dtype:
            a, b, c = torch.randn(3, n, n, device=HERE).to(dtype)
            each: dict[str, Run] = {name: lambda: [torch.mm(a, b, out=c) for _ in range(times)]}
            return times * 2 * n**3 / interleaved(each, 5, HERE.type).median(name)

    def steps(self, size: str, rows: int, name: str, peaks: dict[str, float]) -> Iterator[Row]:
        torch.manual_seed(0)
        source, target = batch = [ragged(rows, n, shortest=n - 40, device=HERE) for n in (48, 49)]
        real = int((source != 0).sum() + (target[:, 1:] != 0).sum())
        contestants, found = dict[str, Run](), dict[str, Row]()
        with precision(name) as dtype:
            half = dtype if dtype == torch.bfloat16 else None
            for who, make in TRAINED.items():
                row = found[who] = Row(size=size, rows=rows, tokens=real, precision=name, who=who)
                model = loss = run = None  # the last one is gone, unless it is a contestant
                before = allocated()
                try:
                    model = make(SIZES[size]).to(HERE)
                    packed = {"packed": True} if "packed" in who else {}
                    loss = partial(model.loss, *batch, **packed)
                    run = training_step(model, loss, half, fused=True)
                    run()
                    if not packed:  # the counter's hooks keep it from packing
                        with FlopCounterMode(display=False) as counter:
                            run()
                        row["operations"] = counter.get_total_flops()
                    row["bytes"] = highest(run) - before
                    contestants[who] = run
                except torch.OutOfMemoryError:
                    row["error"] = "out of memory"
                    torch.cuda.empty_cache()
            if contestants:
                times = interleaved(contestants, 2 if self.small else 5, HERE.type)
        for who in contestants:
            row, seconds = found[who], times.median(who)
            row |= {"seconds": seconds, "tokens a second": real / seconds}
            if "operations" in row:
                row["share of peak"] = row["operations"] / seconds / peaks[name]
            if "nn.Transformer" in contestants:
                row["times as fast as nn.Transformer"] = times.ratio(who, "nn.Transformer")
        yield from found.values()

    def searches(self) -> Iterator[Row]:
        """Times searches for 64 new tokens, beside transformers' MarianMT of the same sizes."""
        size = SIZES["small" if self.small else "base"]
        many, new, rounds = ((1, 4), 8, 2) if self.small else ((1, 32, 256), 64, 3)
        for dtype, rows, width in product((torch.float32, torch.bfloat16), many, (1, 5)):
            torch.manual_seed(0)
            source = ragged(rows, 24, device=HERE)
            contestants = dict[str, Run]()
            for who, make in (("unmasked", Ours), ("MarianMT", Marian)):
                model: Any = make(size).to(HERE, dtype).eval()
                contestants[who] = partial(model.search, source, width, new)
            times = interleaved(contestants, rounds, HERE.type)
            for who in contestants:
                seconds, name = times.median(who), str(dtype).removeprefix("torch.")
                yield {"who": who, "precision": name, "rows": rows, "beam": width,
                       "seconds": seconds, "tokens a second": rows * new / seconds,
                       "times as fast as MarianMT": times.ratio(who, "MarianMT")}  # fmt: skip

    def attention(self) -> Iterator[Row]:
        """Times forward and backward of a causal attention, 8 heads of width 64, as n grows."""
        for n, name in product((64, 128) if self.small else (512, 1024, 2048, 4096, 8192, 16384),
                               ("float32", "bfloat16")):  # fmt: skip
            with precision(name) as dtype:
                x: Any = torch.randn(3, 1, 8, n, 64, device=HERE, dtype=dtype, requires_grad=True)
                mask = torch.ones(n, n, dtype=torch.bool, device=HERE).tril()
                ways: dict[str, Any] = {
                    "explicit": lambda q, k, v, m: attention(q, k, v, m, maps=[]),
                    "fused, our mask": attention,
                    "fused, is_causal": lambda q, k, v, _: fused(q, k, v, is_causal=True),
                }
                for way, function in ways.items():
                    run = partial(lambda f, *given: f(*given).sum().backward(), function, *x, mask)
                    row: Row = {"n": n, "precision": name, "way": way}
                    x.grad = None
                    before = allocated()
                    try:
                        row["bytes"] = highest(run) - before
                        row["seconds"] = interleaved({way: run}, 5, HERE.type).median(way)
                    except torch.OutOfMemoryError:
                        row["error"] = "out of memory"
                    yield row

    def notebooks(self) -> Iterator[Row]:
        """Runs every notebook's cells as a script, all at once, with one thread each."""
        paths = sorted([*ROOT.glob("book/*.ipynb"), *ROOT.glob("book/[!.]*/*.ipynb")])
        quiet = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "TQDM_DISABLE": "1"}
        options: Any = {"env": quiet, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        running = {}
        for path in paths[:1] if self.small else paths:
            words = [sys.executable, "-c", script(path)]
            running[path.stem] = subprocess.Popen(words, text=True, **options)
        began = time.perf_counter()
        for name, process in running.items():
            try:
                _, wrong = process.communicate(timeout=max(1, 150 - time.perf_counter() + began))
            except subprocess.TimeoutExpired:
                process.kill()
                wrong = "not finished in 150 s"
            yield {"notebook": name, "ran": process.returncode == 0, "error": wrong[-600:]}


def script(notebook: Path) -> str:
    """Joins a notebook's code, without the lines that only Jupyter reads."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return "display = print\n" + re.sub(r"(?m)^( *)%.*", r"\1pass", code)


def allocated() -> int:
    gc.collect()
    return torch.cuda.memory_allocated() if HERE.type == "cuda" else 0


def highest(run: Run) -> int:
    """Returns the most bytes that were allocated on the GPU during a run."""
    if HERE.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    run()
    return torch.cuda.max_memory_allocated() if HERE.type == "cuda" else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="small sizes, for a CPU: four minutes")
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="PART", help=", ".join(NAMES))
    parser.add_argument("--seconds", type=float, default=480, help="after which to stop (480)")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), help="a folder (runs/gpu)")
    options = parser.parse_args()
    if HERE.type == "cpu" and not options.small:
        parser.error("no GPU that torch can use was found; --small runs on a CPU")
    began, parts = time.perf_counter(), Parts(options.small)
    warnings.filterwarnings("ignore")  # what the peers say about themselves
    options.out.mkdir(parents=True, exist_ok=True)
    file, found = options.out / "gpu.json", dict[str, Row]()
    about = {**machine(HERE.type), "command": command()}
    for name in options.only or NAMES:
        part = found[name] = {"rows": [], "whole": False}
        try:
            for row in getattr(parts, name)():
                part["rows"].append(row)
                say(f"{time.perf_counter() - began:6.0f} s  {name}: {str(row)[:300]}")
                file.write_text(as_json({"machine": about, "parts": found}), encoding="utf-8")
                if time.perf_counter() - began > options.seconds:
                    break
            else:
                part["whole"] = True
        except Exception:  # the other parts may be right; what went wrong is kept
            part["error"] = traceback.format_exc()
            say(part["error"])
        file.write_text(as_json({"machine": about, "parts": found}), encoding="utf-8")
    wrong = [name for name, part in found.items() if "error" in part]
    equal = found.get("equality", {"rows": []})["rows"]
    wrong += [row["what"] for row in equal if not row["right"]]
    sys.exit(f"not right: {', '.join(wrong)}" if wrong else 0)


if __name__ == "__main__":
    main()

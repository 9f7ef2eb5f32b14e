"""The package on one GPU, in eight minutes: equality, speed, memory, and time to quality.

Writes gpu.json after every row, so that what ran stays when time is up. Needs no network. Where
UNMASKED_DATA names a folder with Multi30k, time to quality is measured on it, else on phrases.
"""

import argparse
import copy
import functools
import gc
import importlib.util
import os
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as fused
from torch.utils.flop_counter import FlopCounterMode

import unmasked
from command import command, say
from peers import Marian, Ours, Size, Torch, ragged, training_step, written
from timing import Run, interleaved, precision, synchronise
from unmasked import Transformer
from unmasked.attention import attention
from unmasked.loss import translation_loss
from unmasked.machine import device, machine
from unmasked.search import beam, greedy, sample
from unmasked.text.corpus import Corpus
from unmasked.text.multi30k import multi30k
from unmasked.text.phrasebook import sentence_pairs
from unmasked.tokens import Subwords
from unmasked.training.recipe import Recipe
from unmasked_book.captions import caption_pairs
from unmasked_book.experiments.learning import learn, score
from unmasked_book.experiments.lstm import count_parameters, recurrent_like
from unmasked_book.records import as_json

Row = dict[str, Any]
HERE = device()
SIZES = {
    "small": Size(256, 4, 3, 1024),
    "base": Size(512, 8, 6, 2048, vocab=37_000),
    "big": Size(1024, 16, 6, 4096, vocab=37_000),
}


class Parts:
    """A method for each part, the most valuable first. Each gives rows, one after the other."""

    def __init__(self, small: bool) -> None:
        self.small = small

    def equality(self) -> Iterator[Row]:
        """Largest differences to the CPU (or as said), in float32 without TF32, and their bounds.

        Searches are counted in sentences that differ: rounding may tip one of eighty.
        """
        for name, bound, measure in (
            ("tests for GPUs that fail", 0, self.tests),
            ("logits and gradients equal the CPU's, relative", 1e-4, self.parity),
            ("first choices that bfloat16 changes, share", 0.03, self.bfloat16),
            ("greedy: sentences that differ", 1, lambda: self.differ(greedy)),
            ("beam of five: sentences that differ", 1,
             lambda: self.differ(lambda m, s: beam(m, s, 5).tokens[:, 0])),
            ("samples: sentences that differ", 1,
             lambda: self.differ(functools.partial(sample, seed=1, top_p=0.9))),
        ):  # fmt: skip
            found = float(measure())
            yield {"what": name, "found": found, "bound": bound, "right": found <= bound}

    def tests(self) -> int:
        """Those of masks, packing, products, search and the whole model, on this device."""
        where = "tests/unmasked" if HERE.type != "cpu" else "tests/unmasked/fast/test_packed.py"
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", HERE.type, where]
        root = Path(__file__).parents[1]
        done = subprocess.run([sys.executable, *words], cwd=root, capture_output=True, text=True)
        say(done.stdout.splitlines()[-1])
        return done.stdout.count("\nFAILED") + done.stdout.count("\nERROR")

    @functools.cached_property
    def captions(self) -> tuple[Transformer, Tensor, Tensor]:
        translator = unmasked.load("de-en")
        corpus = translator.corpus(caption_pairs(translator))
        return translator.model, *corpus.batch()

    def on(self, where: str | torch.device, run: Callable[..., Any], dtype: Any = None) -> Any:
        """The run's result with the shipped model and the captions there, brought to the CPU."""
        model, *batch = self.captions
        result = run(copy.deepcopy(model).to(where, dtype), *(x.to(where) for x in batch))
        return [x.detach().cpu() for x in result] if isinstance(result, list) else result.cpu()

    def parity(self) -> float:
        def run(model: Transformer, source: Tensor, target: Tensor) -> list[Tensor]:
            logits = model(source, target[:, :-1])
            translation_loss(model, source, target, smoothing=0.1).backward()
            return [logits, *(p.grad for p in model.parameters() if p.grad is not None)]

        pairs = zip(self.on(HERE, run), self.on("cpu", run), strict=True)
        return max(((a - b).abs().max() / b.abs().max()).item() for a, b in pairs)

    def bfloat16(self) -> float:
        def run(model: Transformer, source: Tensor, target: Tensor) -> Tensor:
            with torch.no_grad():
                return model(source, target[:, :-1]).argmax(-1)

        half, whole = self.on(HERE, run, torch.bfloat16), self.on("cpu", run)
        return (half != whole)[self.captions[2][:, 1:] != 0].float().mean().item()

    def differ(self, search: Callable[..., Tensor]) -> int:
        both = (self.on(w, lambda m, s, _: search(m, s)).tolist() for w in (HERE, "cpu"))
        return sum([*filter(None, a)] != [*filter(None, b)] for a, b in zip(*both, strict=True))

    def training(self) -> Iterator[Row]:
        """Steps beside nn.Transformer, of ragged rows (8 to 48 words), with Adam; real tokens. The
        share of the peak, that of a large product of matrices, is of what each itself computes.
        """
        peaks = {}
        for name in ("float32",) if self.small else ("float32", "TF32", "bfloat16"):
            n = 256 if self.small else 8192
            with precision(name) as dtype:
                run = functools.partial(multiplied, *torch.randn(2, n, n, device=HERE).to(dtype))
                peaks[name] = TIMES * 2 * n**3 / interleaved({name: run}, 5, HERE.type).median(name)
        yield {"what": "products of two matrices", "operations a second": peaks}
        sizes = ("small",) if self.small else ("small", "base", "big")
        rows = 8 if self.small else 800
        for size, name in product(sizes, peaks):
            yield from self.steps(size, rows, name, peaks)
        for rows in () if self.small else (25, 100, 400, 1600, 3200, 6400):
            yield from self.steps("base", rows, "bfloat16", peaks)

    def steps(self, size: str, rows: int, name: str, peaks: dict[str, float]) -> Iterator[Row]:
        torch.manual_seed(0)
        source = ragged(rows, 48, shortest=8, device=HERE)
        target = ragged(rows, 49, shortest=9, device=HERE)
        real = int((source != 0).sum() + (target[:, 1:] != 0).sum())
        about = {"size": size, "rows": rows, "tokens": real, "precision": name}
        makers: dict[str, tuple[type, dict[str, Any]]] = {
            "unmasked": (Ours, {}),
            "unmasked, packed": (Ours, {"packed": True}),
            "nn.Transformer": (Torch, {}),
        }
        contestants, found = dict[str, Run](), dict[str, Row]()
        with precision(name) as dtype:
            for who, (make, options) in makers.items():
                row: Row = {**about, "who": who}
                model, before = None, allocated()  # the last one is gone
                try:
                    model = make(SIZES[size]).to(HERE)
                    loss: Run = functools.partial(model.loss, source, target, **options)
                    half = dtype if dtype == torch.bfloat16 else None
                    run = training_step(model, loss, half, fused=True)
                    run()
                    if not options:  # the counter's hooks keep it from packing
                        with FlopCounterMode(display=False) as counter:
                            run()
                        row["operations"] = counter.get_total_flops()
                    row["bytes"] = highest(run) - before
                    contestants[who] = run
                except torch.OutOfMemoryError:
                    row["error"] = "out of memory"
                    torch.cuda.empty_cache()
                found[who] = row
                del model
            if contestants:
                times = interleaved(contestants, 2 if self.small else 5, HERE.type)
        for who, row in found.items():
            if who in contestants:
                seconds = times.median(who)
                row |= {"seconds": seconds, "tokens a second": real / seconds}
                if "operations" in row:
                    row["share of peak"] = row["operations"] / seconds / peaks[name]
                if "nn.Transformer" in contestants:
                    row["times as fast as nn.Transformer"] = times.ratio(who, "nn.Transformer")
            yield row

    def searches(self) -> Iterator[Row]:
        """64 new tokens for everybody, beside transformers' MarianMT, with the same sizes."""
        size = SIZES["small" if self.small else "base"]
        many, new, rounds = ((1, 4), 8, 2) if self.small else ((1, 32, 256), 64, 3)
        peers: dict[str, Any] = {"unmasked": Ours}
        if importlib.util.find_spec("transformers"):
            peers["MarianMT"] = Marian
        for dtype, rows, width in product((torch.float32, torch.bfloat16), many, (1, 5)):
            torch.manual_seed(0)
            source = ragged(rows, 24, device=HERE)
            contestants: dict[str, Run] = {}
            for who, make in peers.items():
                model = make(size).to(HERE, dtype).eval()
                contestants[who] = functools.partial(written, model, source, width, new)
            times = interleaved(contestants, rounds, HERE.type)
            for who in contestants:
                seconds, name = times.median(who), str(dtype).removeprefix("torch.")
                row = {"who": who, "precision": name, "rows": rows, "beam": width,
                       "seconds": seconds, "tokens a second": rows * new / seconds}  # fmt: skip
                if len(contestants) > 1:
                    row["times as fast as MarianMT"] = times.ratio(who, "MarianMT")
                yield row

    def attention(self) -> Iterator[Row]:
        """Forward and backward of a causal attention, 8 heads of width 64, as n grows."""
        for n, name in product((64, 128) if self.small else (512, 1024, 2048, 4096, 8192, 16384),
                               ("float32", "bfloat16")):  # fmt: skip
            with precision(name) as dtype:
                x: Any = torch.randn(3, 1, 8, n, 64, device=HERE, dtype=dtype)
                x.requires_grad_()
                mask = torch.ones(n, n, dtype=torch.bool, device=HERE).tril()
                ways: dict[str, Any] = {
                    "explicit": lambda q, k, v, m: attention(q, k, v, m, maps=[]),
                    "fused, our mask": attention,
                    "fused, is_causal": lambda q, k, v, _: fused(q, k, v, is_causal=True),
                }
                for way, function in ways.items():
                    run = functools.partial(function, *x, mask)
                    row: Row = {"n": n, "precision": name, "way": way}
                    x.grad = None
                    before = allocated()
                    try:
                        both = functools.partial(lambda f: f().sum().backward(), run)
                        row["bytes"] = highest(both) - before
                        row["seconds"] = interleaved({way: both}, 5, HERE.type).median(way)
                    except torch.OutOfMemoryError:
                        row["error"] = "out of memory"
                    yield row

    def quality(self) -> Iterator[Row]:
        """Until a validation loss: the Transformer, and an LSTM with attention of as many weights.

        The rule, written before any run but for the brackets, which came with the second: each
        trains with the rates of the ladder and one seed (and with twice the highest while that is
        the best); the one with the lowest last loss goes on, with seeds 0, 1 and 2. The goal is the
        lowest of GOALS (nats a subword) that all six reach. "Trains faster" is confirmed, for
        tokens and for seconds apart, if all three Transformers need fewer than every LSTM, refuted
        if the other way round. Seconds are those of training, without the looks at the validation
        data.
        """
        steps = 8 if self.small else 800
        if os.environ.get("UNMASKED_DATA"):
            kind, subwords = "Multi30k, German to English", 4000
            parts = multi30k("train"), multi30k("val")[::2]
        else:
            kind, subwords = "phrasebook, German to English", 500
            drawn = [pair[:2] for pair in sentence_pairs(8000)]
            parts = drawn[:7500], drawn[7500:]
        vocabulary = Subwords.of((text for pair in parts[0] for text in pair), subwords)
        training, validation = (Corpus.of(vocabulary, vocabulary, part) for part in parts)
        data = training, validation, len(vocabulary)
        for model in ("Transformer", "LSTM with attention"):
            rates, tried = [0.002] if self.small else [0.0005, 0.001, 0.002, 0.004], {}
            for rate in rates:
                row = self.until(data, model, rate, 1000, steps)
                tried[rate] = row["losses"][-1]
                yield {**row, "data": kind, "chooses": True}
                best = min(tried, key=lambda rate: tried[rate])
                if rate == rates[-1] == best and not self.small:
                    rates.append(2 * rate)
            for seed in range(1 if self.small else 3):
                yield {**self.until(data, model, best, seed, steps), "data": kind, "chooses": False}

    def until(
        self, data: tuple[Corpus, Corpus, int], kind: str, rate: float, seed: int, steps: int
    ) -> Row:
        training, validation, words = data
        torch.manual_seed(seed)
        model: Any = Transformer(replace(SIZES["small"], vocab=words).config(norm="pre"))
        if kind != "Transformer":
            model = recurrent_like(model, words, seed, n_layers=2, dropout=0.1)
        recipe = Recipe(
            steps=steps, rate=rate, warmup=steps // 8, smoothing=0.0, clip=1.0, seed=seed,
            tokens=400 if self.small else 6000)  # fmt: skip
        clock: dict[str, Any] = {"spent": 0.0, "since": 0.0}
        seconds, losses = [], []

        def look() -> float:
            synchronise(HERE)
            clock["spent"] += time.perf_counter() - clock["since"]
            seconds.append(clock["spent"])
            losses.append(score(model, validation).cross_entropy)
            model.train()
            synchronise(HERE)
            clock["since"] = time.perf_counter()
            return losses[-1]

        model.to(HERE)
        clock["since"] = time.perf_counter()
        with precision("TF32"):  # which PyTorch allows an LSTM anyway
            learn(model, training, recipe, watch=look, every=max(1, steps // 32))
        return {"who": kind, "rate": rate, "seed": seed, "parameters": count_parameters(model),
                "tokens a step": recipe.tokens, "every": max(1, steps // 32), "seconds": seconds,
                "losses": losses}  # fmt: skip

    def notebooks(self) -> Iterator[Row]:
        """Every notebook's cells as a script, all notebooks at once, with one thread each."""
        book = Path(__file__).parents[1] / "book"
        paths = sorted([*book.glob("*.ipynb"), *book.glob("[!.]*/*.ipynb")])
        running = {}
        for path in paths[:1] if self.small else paths:
            words = [sys.executable, "-c", SCRIPT, str(path)]
            quiet = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "TQDM_DISABLE": "1"}
            running[path.stem] = subprocess.Popen(
                words, env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
        began = time.perf_counter()
        for name, process in running.items():
            try:
                _, wrong = process.communicate(timeout=max(1, 150 - time.perf_counter() + began))
            except subprocess.TimeoutExpired:
                process.kill()
                wrong = "not finished in 150 s"
            yield {"notebook": name, "ran": process.returncode == 0, "error": wrong[-600:]}


SCRIPT = """
import json, re, sys
cells = json.load(open(sys.argv[1], encoding="utf-8"))["cells"]
space = {"__name__": "__main__", "display": print}
for cell in cells:
    if cell["cell_type"] == "code":
        text = re.sub(r"(?m)^( *)%.*", r"\\1pass", "".join(cell["source"]))
        text = re.sub(r"from IPython.display import (\\w+)", r"\\1 = print", text)
        try:
            exec(compile(text, cell["id"], "exec"), space)
        except Exception:
            sys.stderr.write(f"cell {cell['id']}: ")
            raise
"""


TIMES = 8  # else a GPU's clock counts for much


def multiplied(a: Tensor, b: Tensor) -> None:
    for _ in range(TIMES):
        torch.mm(a, b)


def allocated() -> int:
    gc.collect()
    return torch.cuda.memory_allocated() if HERE.type == "cuda" else 0


def highest(run: Run) -> int:
    """The most bytes that were allocated on the GPU during a run."""
    if HERE.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    run()
    return torch.cuda.max_memory_allocated() if HERE.type == "cuda" else 0


def main() -> None:
    options = arguments()
    began, parts = time.perf_counter(), Parts(options.small)
    warnings.filterwarnings("ignore")  # what the peers say about themselves
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "gpu.json"
    about = {**machine(HERE.type), "command": command(__file__)}
    result: dict[str, Any] = {"machine": about, "parts": {}}
    for name in options.only or NAMES:
        rows: list[Row] = []
        result["parts"][name] = {"rows": rows, "whole": False}
        try:
            for row in getattr(parts, name)():
                rows.append(row)
                say(f"{time.perf_counter() - began:6.0f} s  {name}: {shown(row)}")
                file.write_text(as_json(result), encoding="utf-8")
                if time.perf_counter() - began > options.seconds:
                    break
            else:
                result["parts"][name]["whole"] = True
        except Exception:  # the other parts may be right; what went wrong is kept
            result["parts"][name]["error"] = traceback.format_exc()
            say(traceback.format_exc())
        file.write_text(as_json(result), encoding="utf-8")
    wrong = [name for name, part in result["parts"].items() if "error" in part]
    wrong += [row["what"] for row in result["parts"].get("equality", {"rows": []})["rows"]
              if not row["right"]]  # fmt: skip
    if wrong:
        raise SystemExit(f"not right: {', '.join(wrong)}")


GOALS = (4.0, 3.5, 3.0, 2.5, 2.2, 2.0, 1.8)
NAMES = ("equality", "training", "searches", "attention", "quality", "notebooks")


def shown(row: Row) -> str:
    return ", ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                     for name, value in row.items() if not isinstance(value, list))  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="small sizes, for a CPU: two minutes")
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="PART", help=", ".join(NAMES))
    parser.add_argument("--seconds", type=float, default=480, help="after which to stop (480)")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), help="a folder (runs/gpu)")
    options = parser.parse_args()
    if HERE.type == "cpu" and not options.small:
        parser.error("no GPU that torch can use was found; --small runs on a CPU")
    return options


if __name__ == "__main__":
    main()

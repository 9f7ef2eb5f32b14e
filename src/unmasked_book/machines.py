"""What a model costs, counted; floating-point formats; how fast a machine is, measured and drawn.

An operation is one multiplication or one addition of two numbers; a product and its sum are two.
"""

from __future__ import annotations

import functools
import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from unmasked.config import TransformerConfig
from unmasked.errors import check_whole, invalid
from unmasked.fast.products import product
from unmasked.fast.steps import FastSteps
from unmasked.plots.picture import (
    COLOURS,
    DASHES,
    GREY,
    MARKERS,
    STYLE,
    Picture,
    few_powers,
    in_a_row,
    look,
    marked,
    number,
    panels,
    plain_numbers,
)
from unmasked.search import Cached
from unmasked.text.corpus import Corpus
from unmasked.tokens import BOS
from unmasked.training.processes import Processes
from unmasked.training.recipe import Recipe
from unmasked.training.trainer import Trainer
from unmasked.transformer import Transformer

# --- Counted ----------------------------------------------------------------------------------

FLOAT32 = 4  # bytes


def multiply_adds(
    config: TransformerConfig, source: int, target: int, rows: int = 1
) -> dict[str, int]:
    """Products, each with its sum, of a forward pass over so many rows, part by part.

    The encoder reads `source` words a row, the decoder `target`; padding is computed like words.
    """
    for name, value in (("source", source), ("target", target), ("rows", rows)):
        check_whole(name, value, 1)
    d, encoder, decoder = config.d_model, config.n_layers, config.decoder_layers
    read, written = rows * source, rows * target
    across = decoder * (2 * written + 2 * read)  # queries and outputs; keys and values
    pairs = encoder * source**2 + decoder * (target**2 + target * source)
    return {
        "projections": (encoder * 4 * read + decoder * 4 * written + across) * d**2,
        "scores, means": rows * pairs * 2 * d,
        "feed-forward": (encoder * read + decoder * written) * 2 * d * config.d_ff,
        "logits": written * d * config.target_vocab,
    }


def training_operations(config: TransformerConfig, source: int, target: int, rows: int = 1) -> int:
    """Those of a training step's matrix products, without what is computed twice to save memory.

    Each product of the forward pass has two of its size in the backward pass: one for the gradient
    of either factor.
    """
    return 2 * 3 * sum(multiply_adds(config, source, target, rows).values())


def product_operations(m: int, k: int, n: int) -> int:
    """Of the matrix product [m, k] · [k, n]."""
    return 2 * m * k * n


def product_bytes(m: int, k: int, n: int, width: int = FLOAT32) -> int:
    """What it has to fetch and to store, if it does so once, with numbers of `width` bytes."""
    return width * (m * k + k * n + m * n)


def attainable(intensity: float, peak: float, bandwidth: float) -> float:
    """The roofline: operations a second, at so many operations for each byte fetched.

    `peak` is what the machine computes in a second, `bandwidth` what it fetches.
    """
    return min(peak, intensity * bandwidth)


def kept_numbers(
    config: TransformerConfig, source: int, target: int, rows: int = 1
) -> dict[str, int]:
    """Numbers that a training step keeps for its backward pass, part by part, without dropout's.

    A masked attention keeps its queries, keys and values, and its result before and after rows
    without a key are emptied; a norm its input and, for the next matrix, its output. The few
    numbers that norms and softmax keep for each row are left out.
    """
    d, encoder, decoder = config.d_model, config.n_layers, config.decoder_layers
    read, written = rows * source, rows * target
    last = 2 * d if config.has_final_norm else d  # what a stack hands over
    return {
        "encoder": read * (encoder * (9 * d + config.d_ff) + last),
        "decoder": decoder * (written * (14 * d + config.d_ff) + read * 2 * d) + written * last,
        "logits": written * config.target_vocab,
    }


# --- Floating-point formats -------------------------------------------------------------------


class Format(NamedTuple):
    """A sign, then so many bits for the power of two, then so many for what follows "1."."""

    exponent: int
    fraction: int

    @property
    def step(self) -> float:
        """From 1 to the next number above it."""
        return math.ldexp(1.0, -self.fraction)

    @property
    def largest(self) -> float:
        return (2 - self.step) * math.ldexp(1.0, 2 ** (self.exponent - 1) - 1)

    @property
    def smallest(self) -> float:
        """The lowest number above 0 with a leading 1; nearer to 0, digits are lost one by one."""
        return math.ldexp(1.0, 2 - 2 ** (self.exponent - 1))


FORMATS = {
    "float32": Format(8, 23),
    "TF32": Format(8, 10),  # in the units of a GPU only: in memory it is a float32
    "bfloat16": Format(8, 7),
    "float16": Format(5, 10),
}


def rounded(x: Tensor, fraction: int) -> Tensor:
    """To the nearest number with so many bits after its leading 1; x keeps its type and range."""
    check_whole("fraction", fraction, 0)
    mantissa, power = torch.frexp(x.double())  # mantissa · 2^power, from ½ up to 1
    scale = 2.0 ** (fraction + 1)
    return torch.ldexp((mantissa * scale).round() / scale, power).to(x.dtype)


# --- Timed ------------------------------------------------------------------------------------

PRECISIONS = {
    "float32": torch.float32,
    "TF32": torch.float32,  # the numbers in memory are float32's
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def synchronise(device: torch.device) -> None:
    """Waits for what was asked of a GPU; a CPU has done it when it answers."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def timed(run: Callable[[], object], times: int, device: torch.device) -> float:
    """Seconds of a run, the mean of so many, one after the other."""
    synchronise(device)
    begin = time.perf_counter()
    for _ in range(times):
        run()
    synchronise(device)
    return (time.perf_counter() - begin) / times


def seconds(
    run: Callable[[], object], device: torch.device, rounds: int = 5, least: float = 0.01
) -> float:
    """The median time of a run, after one to warm up.

    A short one is repeated until it takes `least` seconds: only then a clock, or a GPU that has
    to be waited for, does not count for much.
    """
    run()
    times = math.ceil(least / timed(run, 1, device))
    return statistics.median(timed(run, times, device) for _ in range(rounds))


@contextmanager
def precision(name: str) -> Iterator[torch.dtype]:
    """The type of the numbers; within, products of float32 take TF32 if that is its name."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if name == "TF32" else "highest")
    try:
        yield PRECISIONS[name]
    finally:
        torch.set_float32_matmul_precision(before)


def products(
    sizes: Sequence[int],
    precisions: Sequence[str],
    device: torch.device,
    *,
    rounds: int = 5,
    patience: float = 0.2,
) -> dict[str, Any]:
    """Seconds of the product of two n × n matrices; larger ones are left out beyond `patience`."""
    found: dict[str, Any] = {}
    for name in precisions:
        times: list[float] = []
        with precision(name) as dtype:
            for n in sizes:
                if not times or times[-1] < patience:
                    a, b = torch.randn(2, n, n, device=device).to(dtype)
                    times.append(seconds(functools.partial(torch.mm, a, b), device, rounds))
        found[name] = {"sizes": list(sizes[: len(times)]), "seconds": times}
    return found


def product_of_vector(device: torch.device, n: int = 8192, rounds: int = 5) -> tuple[float, float]:
    """Operations for each byte, and operations a second, of an n × n matrix times a vector."""
    run = functools.partial(
        torch.mv, torch.randn(n, n, device=device), torch.ones(n, device=device)
    )
    operations = product_operations(n, n, 1)
    intensity = operations / product_bytes(n, n, 1)
    return intensity, operations / seconds(run, device, rounds)


def step_matrices(config: TransformerConfig, words: int) -> list[tuple[int, int]]:
    """(outputs, inputs) of the matrices of a decoding step, for one source of so many words.

    Cross-attention is folded, as in `unmasked.fast`.
    """
    d, hidden, folded = config.d_model, config.d_ff, config.n_heads * words
    layer = [(3 * d, d), (d, d), (folded, d), (d, folded), (hidden, d), (d, hidden)]
    return layer * config.decoder_layers + [(config.target_vocab, d)]


def step_products(
    config: TransformerConfig, words: int, device: torch.device
) -> Callable[[], None]:
    """The products of such a step, with nothing between them, in the layouts of `unmasked.fast`."""
    works = [
        (product(torch.randn(shape, device=device), None, 1), torch.randn(shape[1], device=device))
        for shape in step_matrices(config, words)
    ]

    @torch.inference_mode()
    def run() -> None:
        for multiply, vector in works:
            multiply(vector)

    return run


def bandwidth(device: torch.device, mebibytes: int = 256, rounds: int = 5) -> float:
    """Bytes a second, fetched and stored, in c = a + b with vectors that fit in no cache."""
    a, b, c = torch.zeros(3, mebibytes * 2**20 // 12, device=device)
    run = functools.partial(torch.add, a, b, out=c)
    moved: float = 3 * a.nbytes / seconds(run, device, rounds)
    return moved


def training_step(
    config: TransformerConfig,
    lengths: Sequence[int],
    recipe: Recipe,
    device: torch.device,
) -> Callable[[], Tensor]:
    """One update of a new model, inside our engine, with random sentences of these lengths."""
    draws = torch.Generator().manual_seed(0)
    source, target = (
        [torch.randint(3, size, (n,), generator=draws).tolist() for n in lengths]
        for size in (config.source_vocab, config.target_vocab)
    )
    corpus = Corpus(source, [[BOS, *sentence] for sentence in target])  # as many labels as words
    model = Transformer(config).to(device)
    trainer = Trainer(model, corpus, recipe, Processes(0, 1, device))
    return functools.partial(trainer.update, 1, corpus.pairs)


def decoding_step(
    config: TransformerConfig,
    rows: int,
    device: torch.device,
    *,
    dtype: torch.dtype = torch.float32,
) -> Callable[[], Tensor]:
    """The first step of greedy search with a new model, for so many sentences of eight words."""
    source, begin, parents = begun(config, rows, device)
    with torch.inference_mode():
        steps = FastSteps(Transformer(config).to(device, dtype).eval(), source, 1, 64)

    @torch.inference_mode()
    def run() -> Tensor:
        steps.time = 0  # each time as if it were the first
        for layer in steps.layers:
            layer.past.length = 0
        return steps.step(begin, parents)

    return run


def begun(
    config: TransformerConfig, rows: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """What a search begins with: eight words a sentence, BOS, and the row that each continues."""
    draws = torch.Generator().manual_seed(0)
    source = torch.randint(3, config.source_vocab, (rows, 8), generator=draws).to(device)
    return source, torch.full_like(source[:, :1], BOS), torch.zeros_like(source[:, :1])


def plain_step(config: TransformerConfig, rows: int, device: torch.device) -> Callable[[], Tensor]:
    """The second step of the same search by the decoder's own modules, as for any model."""
    source, begin, parents = begun(config, rows, device)
    with torch.inference_mode():
        steps = Cached(Transformer(config).to(device).eval(), source, 1, 64)
        steps.step(begin, parents)
    real = steps.state.real

    @torch.inference_mode()
    def run() -> Tensor:
        steps.state.length, steps.state.real = 1, real  # each time as if it were the second
        for layer in steps.state.layers:
            layer.past.length = 1
        return steps.step(begin, parents)

    return run


# --- Looked into ------------------------------------------------------------------------------


def kept_bytes(run: Callable[[], object], without: Iterable[Tensor] = ()) -> int:
    """What autograd keeps of a run for its backward pass: the memory of tensors, each once.

    `without` are tensors that are there anyway, such as a model's parameters.
    """
    there = {x.untyped_storage().data_ptr() for x in without}
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        kept[storage.data_ptr()] = storage  # held, so that nothing else can get its place
        return x.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        result = run()  # held as well: its graph keeps what it needs
    del result
    return sum(storage.nbytes() for place, storage in kept.items() if place not in there)


class Calls(TorchDispatchMode):
    """Counts the operations that PyTorch dispatches, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def calls(run: Callable[[], object]) -> Counter[str]:
    """The operations of a run, and how often each is called."""
    with Calls() as found:
        run()
    return found.count


def profiler() -> torch.profiler.profile:
    """PyTorch's own, which says nothing when it begins and ends."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    return torch.profiler.profile()


def profiled(run: Callable[[], object], device: torch.device, times: int = 5) -> dict[str, float]:
    """The share of each operation in the time of a run, the largest first: `torch.profiler`."""
    run()
    with profiler() as found:
        for _ in range(times):
            run()
        synchronise(device)
    column = "self_cpu_time_total" if device.type == "cpu" else "self_device_time_total"
    spent = {x.key.removeprefix("aten::"): getattr(x, column) for x in found.key_averages()}
    return {
        name: spent[name] / sum(spent.values())
        for name in sorted(spent, key=lambda each: -spent[each])
    }


# --- What was measured ------------------------------------------------------------------------


def speeds(product: Mapping[str, Any]) -> list[float]:
    """Operations a second of `products`, size by size, in one precision."""
    pairs = zip(product["sizes"], product["seconds"], strict=True)
    return [product_operations(n, n, n) / took for n, took in pairs]


def peak(found: Mapping[str, Any], name: str) -> float:
    """The most operations a second that a product reached, in the precision of this name."""
    return max(speeds(found[name]))


def share_of_peak(
    config: TransformerConfig, rows: int, length: int, took: float, highest: float
) -> float:
    """How much of what a device can do a training step makes use of, with so many words a row.

    `took` is its time in seconds, `highest` the device's operations a second.
    """
    return training_operations(config, length, length, rows) / took / highest


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """b in y ≈ a · x^b: the slope on logarithmic scales."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def where(machine: Mapping[str, Any]) -> str:
    """The machine of a measurement, and the day."""
    threads = f"{machine['threads']} thread{'s' * (machine['threads'] != 1)}"
    return f"{machine['processor']}, {threads}, torch {machine['torch']}, {machine['date']}"


def roofline(
    found: Mapping[str, Any],
    fetched: float,
    machine: Mapping[str, Any],
    others: Mapping[str, tuple[float, float]] | None = None,
) -> Picture:
    """What `products` found, under what the machine can reach, with so many bytes a second; and
    `others`: operations for each byte, and operations a second.
    """
    words = []
    with rc_context(STYLE):
        figure, [[axis]] = panels(1, 1, 3.4)
        for i, (name, product) in enumerate(found.items()):
            sizes, width = product["sizes"], PRECISIONS[name].itemsize
            x = [product_operations(n, n, n) / product_bytes(n, n, n, width) for n in sizes]
            y = np.array(speeds(product)) / 1e9
            highest = peak(found, name) / 1e9
            lowest = min(each for each, _ in (others or {"": (1.0, 0.0)}).values())
            roof = np.geomspace(min(lowest, *x), 2 * max(x), 200)
            limit = np.minimum(highest, roof * fetched / 1e9)
            axis.plot(roof, limit, color=COLOURS[i % 6], linestyle=DASHES[i % 6], lw=1.2)
            label = name if len(found) > 1 else "n × n matrices"
            axis.plot(
                x, y, MARKERS[i % 6], color=COLOURS[i % 6], label=label, mfc="none" if i else None
            )  # one format's points show through the other's
            ends = {len(sizes) - 1: ((-8, -5), "top"), 0: ((6, 0), "center")}
            for end, (by, va) in ends.items():
                axis.annotate(f"n = {sizes[end]:,}", (x[end], y[end]), by, va=va,
                              textcoords="offset points", fontsize="small",
                              color=COLOURS[i % 6])  # fmt: skip
            words.append(
                f"{name} goes from {number(y[0])} at n = {sizes[0]} to {number(y[-1])} at "
                f"n = {sizes[-1]}, at most {number(highest)}"
            )
        for i, (name, (intensity, speed)) in enumerate((others or {}).items(), len(found)):
            axis.plot(intensity, speed / 1e9, MARKERS[i % 6], color=COLOURS[i % 6], label=name)
            words.append(f"{name} is at {number(speed / 1e9)}")
        roofs = {
            "memory": ((roof[0], limit[0]), (26, 0)),
            "arithmetic": ((roof[-1], highest), (-60, 4)),
        }
        for limit_of, (place, by) in roofs.items():
            axis.annotate(limit_of, place, by, textcoords="offset points", color=GREY)
        axis.margins(y=0.1)
        axis.set(xlabel="operations for each byte", ylabel="10⁹ operations a second")
        on = finish(figure, axis, machine)
    return Picture(figure, f"Roofline: 10⁹ operations a second of products of two n × n matrices "
                   f"over operations for each byte. {'; '.join(words)}. The slope is "
                   f"{number(fetched / 1e9)} GB a second. {on}")  # fmt: skip


def measured(
    lines: Mapping[str, Sequence[float]],
    x: Sequence[float],
    machine: Mapping[str, Any],
    *,
    xlabel: str,
    ylabel: str,
    fitted: int = 0,
    linear: bool = False,
    height: float = 3.2,
    colours: Mapping[str, int] | None = None,
    mark: tuple[float, str] | None = None,
) -> Picture:
    """Points, joined; or, through the last `fitted` of them, the power of x that fits them best.

    Both axes are logarithmic; if `linear`, the upright one is not, and begins at zero. `colours`
    and `mark` as for `plots.curves`.
    """
    words = []
    with rc_context(STYLE):
        figure, [[axis]] = panels(1, 1, height)
        for i, (name, values) in enumerate(lines.items()):
            if len(values) != len(x):
                fix = "give x and each line the same length"
                raise invalid(name, f"{len(x)} values", len(values), fix)
            label, said = name, name
            if fitted:
                power = exponent(x[-fitted:], values[-fitted:])
                grows = round(power, 1) + 0.0  # + 0.0: never -0.0
                label, said = f"{name}: grows like $n^{{{grows}}}$", f"{name}: grows like n^{grows}"
                scale = np.exp(np.mean(np.log(values[-fitted:]) - power * np.log(x[-fitted:])))
                path = [scale * each**power for each in x[-fitted:]]
            own = look(colours, name, i)
            style: dict[str, Any] = {"color": COLOURS[own], "linestyle": DASHES[own], "lw": 1.5}
            if fitted:
                axis.plot(x, values, MARKERS[own], color=COLOURS[own], label=label)
                axis.plot(x[-len(path) :], path, **style)
            else:
                axis.plot(x, values, marker=MARKERS[own], label=label, **style)
            words.append(
                f"{said}, from {number(values[0])} at {number(x[0])} to {number(values[-1])} at "
                f"{number(x[-1])}"
            )
        if mark:
            words.append(marked(axis, *mark))
        axis.set(xlabel=xlabel, ylabel=ylabel)
        on = finish(figure, axis, machine)
        if linear:
            axis.set_yscale("linear")
            axis.set_ylim(bottom=0)
        axis.set_xticks(x, [f"{each:,}" for each in x])
        axis.xaxis.set_minor_locator(NullLocator())
    return Picture(figure, f"{ylabel} over {xlabel}. {'; '.join(words)}. {on}")


def finish(figure: Figure, axis: Axes, machine: Mapping[str, Any]) -> str:
    """Both scales logarithmic, and a legend under what was measured on."""
    axis.set(xscale="log", yscale="log")
    for side in (axis.xaxis, axis.yaxis):
        few_powers(side)
        plain_numbers(side)
    axis.spines[["top", "right"]].set_visible(False)
    on = where(machine)
    columns = in_a_row(axis.get_legend_handles_labels()[1])
    legend = figure.legend(loc="outside lower center", ncols=columns, title=on, title_fontsize=8)
    legend.get_title().set_color(GREY)
    return f"Measured on {on}."

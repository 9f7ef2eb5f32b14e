"""How attention grows with the sentence: fused against explicit, time and memory.

Memory is measured in a process of its own, as how far the forward pass raised the highest mark.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from timing import interleaved
from unmasked import LayerConfig
from unmasked.encoder import Encoder
from unmasked.masks import length_mask
from unmasked_book.machines import exponent

LENGTHS = (256, 512, 1024, 2048, 4096)
COMPARED = 2048  # the length at which the goals are set
HALF = len(LENGTHS) // 2  # the growth is taken over the longer ones
LAYERS = 3
CONFIG = LayerConfig(d_model=256, n_heads=4, d_ff=1024)


def forward(
    encoder: Encoder, x: Tensor, explicit: bool, padded: bool = True
) -> Callable[[], object]:
    """The encoder's forward over a sentence, a tenth of it padding (or without any mask).

    The explicit weights of a layer are let go before the next one.
    """
    n = x.shape[1]
    mask = length_mask(torch.tensor([n - n // 10], device=x.device), n) if padded else None

    def run() -> Tensor:
        y = x
        with torch.inference_mode():
            for layer in encoder.layers:
                y = layer(y, mask=mask, maps=[] if explicit else None)
        return y

    return run


def prepare(n: int, device: str) -> tuple[Encoder, Tensor]:
    torch.manual_seed(0)
    return Encoder(CONFIG, LAYERS).to(device).eval(), torch.randn(1, n, CONFIG.d_model).to(device)


def peak_memory(n: int, explicit: bool, device: str) -> float:
    """MiB that the forward pass needs beyond what stood there before it."""
    encoder, x = prepare(n, device)
    forward(encoder, x[:, :16], explicit)()  # what is loaded once and stays
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        allocated = torch.cuda.memory_allocated()
        forward(encoder, x, explicit)()
        return (torch.cuda.max_memory_allocated() - allocated) / 2**20
    before = high_water()
    forward(encoder, x, explicit)()
    return high_water() - before


def high_water() -> float:
    """The most memory that this process ever held, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would begin with the parent's mark
        return float(status.read_text().split("VmHWM:")[1].split()[0]) / 2**10
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def in_another_process(*words: str) -> Any:
    """What this file prints when it runs alone, where nothing else has shaped the memory."""
    command = [sys.executable, __file__, *words]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def measure(device: str, rounds: int = 7) -> dict[str, Any]:
    result: dict[str, Any] = {
        "lengths": LENGTHS,
        "compared": COMPARED,
        "seconds": {},
        "mebibytes": {},
    }
    for name, explicit in (("fused", False), ("explicit", True)):
        options = ["--explicit"] * explicit
        result["mebibytes"][name] = [
            in_another_process(device, "--peak", str(n), *options) for n in LENGTHS
        ]
        result["seconds"][name] = []
    for n in LENGTHS:
        encoder, x = prepare(n, device)
        runs = {name: forward(encoder, x, name == "explicit") for name in result["seconds"]}
        times = interleaved(runs, rounds, device)
        for name in runs:
            result["seconds"][name].append(times.median(name))
        if n == COMPARED:
            result["speed_ratio"] = times.ratio("fused", "explicit")
            runs = {name: forward(encoder, x, name == "explicit", False) for name in runs}
            times = interleaved(runs, rounds, device)
            result["speed_ratio_without_mask"] = times.ratio("fused", "explicit")
    at = LENGTHS.index(COMPARED)
    result["memory_ratio"] = result["mebibytes"]["fused"][at] / result["mebibytes"]["explicit"][at]
    result["exponents"] = {
        f"{name}, {what}": exponent(LENGTHS[HALF:], result[what][name][HALF:])
        for what in ("seconds", "mebibytes")
        for name in ("fused", "explicit")
    }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=("cpu", "cuda"))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--peak", type=int, metavar="N", help="only the memory at this length")
    parser.add_argument("--explicit", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.peak:
        print(json.dumps(peak_memory(options.peak, options.explicit, options.device)))
    else:
        print(json.dumps(measure(options.device)))


if __name__ == "__main__":
    main()

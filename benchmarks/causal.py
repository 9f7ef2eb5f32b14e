"""Asks `unmasked.check` about every causal language model of transformers.

The models are tiny, their weights random.

Example: python benchmarks/causal.py --only LlamaForCausalLM RwkvForCausalLM
"""

import argparse
import signal
import time
import warnings
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto

import unmasked
from timing import command, say
from unmasked.checking.tiny import tiny
from unmasked.machine import machine
from unmasked_book.records import record

LONGEST = 120  # seconds


def row(entry: str, name: str, seed: int) -> dict[str, Any]:
    """Returns how long a class took and its faults, or why it was not asked."""
    told: dict[str, Any] = {"entry": entry, "class": name}
    signal.alarm(LONGEST)
    try:
        model = tiny(name, seed)
        began = time.process_time()
        report = unmasked.check(model, seed=seed, quiet=True)
        told["seconds"] = round(time.process_time() - began, 1)
    except Exception as error:
        return {**told, "not asked": f"{type(error).__name__}: {str(error)[:150]}"}
    finally:
        signal.alarm(0)
    if report["runs"].verdict == "fault":
        return {**told, "not asked": report["runs"].what[:150]}
    told["faults"] = {finding.property: finding.what[:150] for finding in report.faults}
    verdicts = [finding.verdict for finding in report.findings]
    return told | {kind: verdicts.count(kind) for kind in ("passed", "note", "not offered")}


def late(*_: Any) -> None:
    raise TimeoutError(f"more than {LONGEST} seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="CLASS", help="these classes, and no record")
    parser.add_argument("--seed", type=int, default=0, help="draws weights and words (0)")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, late)
    rows = []
    for entry, name in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items():
        if not options.only or name in options.only:
            rows.append(row(entry, name, options.seed))
            say(str(rows[-1])[:300])
    if not options.only:
        about = {**machine("cpu"), "transformers": transformers.__version__, "command": command()}
        record("language-models", {"machine": about, "rows": rows})


if __name__ == "__main__":
    main()

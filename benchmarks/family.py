"""Compares chapter 14's models with transformers' own classes, with the same random weights.

Example: python benchmarks/family.py

Writes family.json among the records. It takes ten seconds and needs transformers.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from timing import command
from unmasked.machine import machine
from unmasked_book import family
from unmasked_book.records import record

SIZES = (61, 48, 4, 3, 80)  # vocabulary, width, heads, layers, inner width
TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
MODELS, BOTH = ("OPT", "GPT2", "BERT", "Marian", "BART", "Llama"), ("Marian", "BART")
TOKENS = torch.tensor([[5, 9, 2, 31, 8, 60, 2], [0, 0, 17, 4, 2, 22, 2], [40, 33, 2, 7, 2, 0, 0]])


def theirs(name: str) -> nn.Module:
    """Builds transformers' model with random numbers in every parameter and buffer it saves."""
    options = {**TABLE["all"], **TABLE[name]["options"], **(TABLE["both"] if name in BOTH else {})}
    kind = getattr(transformers, TABLE[name]["class"])
    model: nn.Module = kind(kind.config_class(**options)).eval()
    torch.manual_seed(0)
    for key, value in model.state_dict().items():
        if name != "Marian" or "embed_positions" not in key:  # those are sines
            scale = key.endswith("weight") and value.dim() == 1  # of a norm
            nn.init.normal_(value, mean=float(scale), std=0.2)
    return model


def renamed(name: str, model: nn.Module) -> dict[str, Tensor]:
    """Renames their weights; GPT-2 stores matrices turned, and query, key and value in one."""
    halves, found = TABLE["names"]["both_halves" if name in BOTH else "one_half"], {}
    for key, value in model.state_dict().items():
        for old, new in (*halves, *TABLE["names"]["a_layer"]):
            key = re.sub(old, new, key, count=1)
        turned = name == "GPT2" and key.startswith("decoder.") and value.dim() == 2
        value = value.T if turned else value.flatten() if key == "bias" else value
        inner = ("query", "key", "value") if "c_attn" in key else ("",)
        for part, piece in zip(inner, value.chunk(len(inner)), strict=True):
            found[key.replace("c_attn", part)] = piece
    return found


@torch.no_grad()
def compared(name: str, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    """Measures the largest difference of a logit, the largest logit, and both sizes.

    Of the three sentences one is padded on the left, but not as a target, and one on the right.
    """
    mine: nn.Module = getattr(family, name)(*SIZES, **TABLE[name].get("ours", {})).eval()
    other, real, given = theirs(name), TOKENS != 0, [TOKENS]
    weights, ends = renamed(name, other), (TOKENS == 2).long()
    mine.load_state_dict({key: weights[key] for key in mine.state_dict()})
    asked = {"attention_mask": real.long()}
    if name in BOTH:
        given += [TOKENS.sort(descending=True)[0].roll(1, 1) * (torch.arange(7) > 0)]
        asked["decoder_input_ids"], real = given[1], given[1].roll(-1, 1) != 0
    elif name == "GPT2":
        asked["position_ids"] = (real.cumsum(1) - 1).clamp(min=0)
    elif name == "BERT":
        asked["token_type_ids"] = (ends.cumsum(1) > ends).long()
    right = other.to(dtype)(TOKENS, **asked).logits
    found = mine.to(dtype)(*given)
    counts = [sum(p.numel() for p in x.parameters() if p.requires_grad) for x in (mine, other)]
    gap, largest = ((x[real]).abs().max().item() for x in (found - right, right))
    return {"difference": gap, "largest": largest, "parameters": counts}


def main() -> None:
    rows = {}
    for name in MODELS:
        rows[name] = {"class": TABLE[name]["class"], **compared(name)}
        rows[name]["in float64"] = compared(name, torch.float64)["difference"]
    about = {**machine("cpu"), "threads": torch.get_num_threads(), "command": command()}
    about["transformers"] = transformers.__version__
    print(record("family", {"machine": about, "rows": rows}))


if __name__ == "__main__":
    main()

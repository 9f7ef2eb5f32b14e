"""Makes tiny random models of transformers' classes, by class, name or configuration."""

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from .state import redrawn

KNOWN = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SIZES: dict[str, Any] = KNOWN["sizes"]


def tiny(which: str | type | PreTrainedConfig, seed: int = 0) -> PreTrainedModel:
    """Returns a small random model, in evaluation mode; of a repository only the configuration.

    `which` is a class, its name, such as "LlamaForCausalLM", a configuration, or "owner/name".
    """
    if isinstance(which, str) and "/" in which:
        which = AutoConfig.from_pretrained(which)
    elif isinstance(which, str):
        which = getattr(transformers, which)
    kind: Any = which
    if isinstance(which, PreTrainedConfig):
        named = getattr(transformers, (which.architectures or [""])[0], None)
        kind = named or MODEL_FOR_CAUSAL_LM_MAPPING[type(which)]
    usual = which if isinstance(which, PreTrainedConfig) else kind.config_class()
    decoder = "MaskedLM" not in kind.__name__
    for mixed in (True, False):  # layers of each type, if the model can be built so
        with torch.random.fork_rng([]), suppress(*[Exception] * mixed):
            torch.manual_seed(seed)
            return redrawn(kind(shrunk(usual, mixed, decoder)), seed).eval()
    raise AssertionError


def shrunk(usual: Any, mixed: bool, decoder: bool = False) -> Any:
    """Returns the configuration with small sizes and without dropout."""
    given, known = {}, usual.to_dict()
    for name, value in known.items():
        part = vars(usual).get(name)  # reading a layer's own attribute would raise
        if isinstance(part, PreTrainedConfig):
            given[name] = shrunk(type(part)(), mixed)
        elif name in SIZES and value is not None and not isinstance(value, list | dict):
            if name != "pad_token_id" or usual.model_type not in KNOWN["padding"]["keep"]:
                given[name] = SIZES[name]
        elif "drop" in name and isinstance(value, float):
            given[name] = 0.0
    for name in KNOWN["needed"]["names"]:
        if name in known and (known[name] is None or isinstance(known[name], list)):
            given[name] = SIZES[name]
    if decoder and "is_decoder" in known:
        given["is_decoder"] = True
    types = list(dict.fromkeys(known.get("layer_types") or ()))
    if mixed and len(types) > 1:
        given["layer_types"] = types
        layers = ("num_hidden_layers", "n_layer")
        given |= {name: len(types) for name in layers if name in known}
    if "kv_lora_rank" in known:  # latent heads are not grouped
        given["num_key_value_heads"] = SIZES["num_attention_heads"]
    defaults = type(usual)().to_dict()
    single = {n: v for n, v in known.items() if isinstance(v, bool | int | float | str)}
    changed = {name: value for name, value in single.items() if value != defaults.get(name)}
    return type(usual)(**{**changed, **given, **KNOWN["types"].get(usual.model_type, {})})

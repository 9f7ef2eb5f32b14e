"""Models in OPUS-MT's format, as Hugging Face's transformers keeps Marian's.

`config.json` names sizes, `vocab.json` numbers the pieces of both languages, `source.spm` and
`target.spm` cut the texts. Their padding, which also begins each target, is their last token, ours
the first two. The starts of targets must never be generated: their bias sees to that.
"""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..config import ACTIVATIONS, TABLE, TransformerConfig
from ..errors import RefusedError, invalid
from ..positions import sinusoids
from ..tokens import SPECIAL_PIECES, Pieces
from .files import bytes_of, opened, regular, text_of

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
NEVER = -1e4  # a logit of no weight, and a number in float16, too
NAMES = {  # in this order
    "model.": "", "final_layer_norm": "feed_forward_residual.norm",
    "encoder_attn_layer_norm": "cross_residual.norm", "encoder_attn": "cross_attention",
    "q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output",
    "fc1": "feed_forward.expand", "fc2": "feed_forward.contract",
}  # fmt: skip


def read_marian(
    folder: Path, kept: Mapping[str, Any]
) -> tuple[TransformerConfig, dict[str, Tensor], Pieces, Pieces, dict[str, Any]]:
    """Configuration, tensors by our names, the words of both sides, and what is said about it."""
    require_allowed(folder, kept)
    numbers, file = json.loads(text_of(folder / "vocab.json")), folder / "generation_config.json"
    given = {**kept, **(json.loads(text_of(file)) if file.exists() else {})}
    words = sorted(numbers, key=numbers.__getitem__)
    whole = [numbers[word] for word in words] == [*range(len(words))]
    if kept["vocab_size"] != len(words) or not whole:
        raise ValueError(f"a vocab.json that does not number {kept['vocab_size']} pieces from 0")
    special = [*(kept[f"{x}_token_id"] for x in ("pad", "decoder_start", "eos")), numbers["<unk>"]]
    if not all(isinstance(number, int) and 0 <= number < len(words) for number in special):
        raise ValueError(f"special tokens numbered {special}")
    order = [*special, *(n for n in range(len(words)) if n not in special)]
    words = [*SPECIAL_PIECES.values(), *(words[number] for number in order[len(special) :])]
    config = TransformerConfig(
        source_vocab=len(words), target_vocab=len(words), d_model=kept["d_model"],
        n_heads=kept["encoder_attention_heads"], d_ff=kept["encoder_ffn_dim"],
        n_layers=kept["encoder_layers"], n_decoder_layers=kept["decoder_layers"],
        dropout=kept.get("dropout", 0.1), inner_dropout=kept.get("attention_dropout", 0.0),
        activation=kept["activation_function"], scale_embeddings=kept["scale_embedding"],
        positions="learned", max_len=kept["max_position_embeddings"],
        tie_embeddings=True, output_bias=True,
    )  # fmt: skip
    about: dict[str, Any] = {"format": "OPUS-MT", "normalize": "length"}
    for ours, theirs in (("beam_size", "num_beams"), ("length_penalty", "length_penalty")):
        about[ours] = 1 if given.get(theirs) is None else given[theirs]
    source, target = (Pieces(bytes_of(folder / f"{x}.spm"), words) for x in ("source", "target"))
    return config, renamed(tensors_in(folder), config, order), source, target, about


def require_allowed(folder: Path, kept: Mapping[str, Any]) -> None:
    found = {**kept, "target_vocab.json": (folder / "target_vocab.json").exists()}
    for name, allowed in {
        "share_encoder_decoder_embeddings": [True],
        "tie_word_embeddings": [True],
        **{f"decoder_{x}": [kept[f"encoder_{x}"]] for x in ("attention_heads", "ffn_dim")},
        "decoder_vocab_size": [kept["vocab_size"]],
        "activation_function": ACTIVATIONS,
        "target_vocab.json": [False],
    }.items():
        if (got := found.get(name)) not in (None, *allowed):
            expected = " or ".join(map(str, allowed))
            fix = "only one vocabulary, one matrix for it and layers of one size are ours, too"
            raise RefusedError(invalid(f"{folder}, {name}", expected, got, fix))


def tensors_in(folder: Path) -> dict[str, Tensor]:
    """Mapped, not read: what nobody asks for takes no memory."""
    if (folder / WEIGHTS[0]).exists():
        with opened(folder / WEIGHTS[0]) as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    path = folder / WEIGHTS[1]
    try:
        mmap = zipfile.is_zipfile(regular(path))  # older files are none
        found = torch.load(path, map_location="cpu", mmap=mmap, weights_only=True)
    except OSError:
        raise
    except Exception as error:  # of many kinds, some with advice that nobody should follow
        raise ValueError(f"a {path.name} that cannot be read ({type(error).__name__})") from None
    for name, x in dict(found).items():
        if not isinstance(x, Tensor) or x.layout != torch.strided or x.is_meta or x.is_quantized:
            raise ValueError(f"a {name} that is no plain tensor")
    return found


def renamed(
    theirs: Mapping[str, Tensor], config: TransformerConfig, order: list[int]
) -> dict[str, Tensor]:
    """By our names, the rows of the vocabulary in our order."""
    found = {}
    for name, tensor in theirs.items():
        if ".layers." in name:
            norm = "attention_residual" if ".encoder." in name else "self_residual"
            renames = NAMES | {
                "self_attn_layer_norm": f"{norm}.norm",
                "self_attn": "self_attention",
            }
            for old, new in renames.items():
                name = name.replace(old, new)
            found[name] = tensor
    found["source_embedding.tokens.weight"] = theirs["model.shared.weight"][order]
    found["generator.bias"] = theirs["final_logits_bias"].flatten()[order]
    found["generator.bias"][1] = NEVER
    if config.max_len * config.d_model > TABLE:
        raise ValueError(f"a table of {config.max_len:,} positions")
    table = sinusoids(0, config.max_len, config.d_model).float()
    table = torch.cat([table[:, ::2], table[:, 1::2]], dim=1)
    for ours, side in (("source", "encoder"), ("target", "decoder")):
        stored = theirs.get(f"model.{side}.embed_positions.weight", table)
        found[f"{ours}_embedding.positions.table"] = stored.clone()
    return found

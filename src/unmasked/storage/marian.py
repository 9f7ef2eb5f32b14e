"""Reads models in OPUS-MT's format, in which Hugging Face's transformers keeps Marian's models.

`config.json` names sizes, `vocab.json` numbers the pieces of both languages, `source.spm` and
`target.spm` split the texts. There the last token pads and begins each target; here the first two
tokens do. A bias in the generator keeps BOS, which begins a target, from being generated.
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
from .files import bytes_of, opened, stat_of

SAFE, PICKLE = "model.safetensors", "pytorch_model.bin"
NEVER = -1e4  # a logit whose probability is 0, and which float16 can hold
NAMES = {  # replaced in this order
    "model.": "", "final_layer_norm": "feed_forward_residual.norm",
    "encoder_attn_layer_norm": "cross_residual.norm", "encoder_attn": "cross_attention",
    "q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output",
    "fc1": "feed_forward.expand", "fc2": "feed_forward.contract",
}  # fmt: skip


def read_marian(
    folder: Path, kept: Mapping[str, Any]
) -> tuple[TransformerConfig, dict[str, Tensor], Pieces, Pieces, dict[str, Any]]:
    """Returns a folder's configuration, tensors, vocabularies, card; `kept` is its config.json."""
    require_allowed(folder, kept)
    numbers, file = json.loads(bytes_of(folder / "vocab.json")), folder / "generation_config.json"
    given = {**kept, **(json.loads(bytes_of(file)) if file.exists() else {})}
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
    """Raises RefusedError for an intact model that a TransformerConfig cannot describe."""
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
    """Returns a folder's weights by name, mapped, so that an unused tensor takes no memory."""
    if (folder / SAFE).exists():
        with opened(folder / SAFE) as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    path = folder / PICKLE
    stat_of(path)
    try:
        mmap = zipfile.is_zipfile(path)  # PyTorch before 1.6 wrote no zip files
        found = torch.load(path, map_location="cpu", mmap=mmap, weights_only=True)
    except OSError:  # a path that cannot be read is no damaged file
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
    """Returns Marian's tensors under our names; row i of the vocabulary is their row `order[i]`."""
    found = {}
    for name, tensor in theirs.items():
        if ".layers." in name:
            norm = "attention_residual" if ".encoder." in name else "self_residual"
            own = {"self_attn_layer_norm": f"{norm}.norm", "self_attn": "self_attention"}
            for old, new in (NAMES | own).items():
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

"""Property tests put to public encoder-decoders: as they are published, and with faults planted.

Example: python benchmarks/others.py --folder ../others

Writes others.json among the records: of each implementation its version, and what
`unmasked.check` says of it. Some come from benchmarks/requirements.txt; how to get the others,
at the versions that are read here, stands in benchmarks/README.md. Of what comes from a
repository, only the classes of the model are run.
"""

from __future__ import annotations

import argparse
import ast
import collections
import copy
import importlib
import inspect
import json
import logging
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import distributions, version
from pathlib import Path
from textwrap import dedent
from types import MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from command import command
from unmasked import check
from unmasked.checking.report import Finding
from unmasked.interop import torch_masks
from unmasked.machine import machine
from unmasked.positions import SinusoidalPositions
from unmasked_book.records import record

VOCAB, WIDTH, HEADS, LAYERS, INNER = 20, 32, 4, 2, 64
WORDS = {"source_vocab": VOCAB, "target_vocab": VOCAB}
SIDES = ("source", "target")
Forward = Callable[[Any, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Reading:
    """What we make of a finding: a bug; or, with a link to where it is said, a design."""

    why: str
    link: str = ""


@dataclass(frozen=True)
class Other:
    name: str
    origin: str  # a package or a repository
    version: str  # or a commit
    url: str
    given: str  # what its forward was given
    build: Callable[[], Any]
    forward: Forward
    step: Forward | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="where the others were put")
    folder = parser.parse_args().folder
    rows = []
    for other in [*packaged(), *downloaded(folder / "packages"), *cloned(folder)]:
        rows.append(row(other))
        faults = [f["property"] for f in rows[-1]["findings"] if f["verdict"] == "fault"]
        print(f"{other.name:27} {', '.join(faults) or 'no fault'}", flush=True)
    versions = {name: version(name) for name in ("transformers", "x-transformers")}
    result = {"machine": {**machine("cpu"), **versions, "command": command(__file__)}, "rows": rows}
    print(f"{len(rows)} rows are in {record('others', result)}")


# --- One row ----------------------------------------------------------------------------------


def row(other: Other) -> dict[str, Any]:
    """What check says in float32; in float64 where that is something else; and why."""
    torch.manual_seed(0)
    model = other.build()
    options: dict[str, Any] = {"step": other.step, "quiet": True, **WORDS}
    findings: list[dict[str, Any]] = []
    for finding in check(model, other.forward, **options).findings:
        kept: dict[str, Any] = {"property": finding.property, "verdict": verdict(finding)}
        kept["what"] = finding.what
        if finding.verdict == "fault":
            kept |= {"input": smallest(finding.property, model, other), "reading": "not read yet"}
        findings.append(kept)
    precise = check(model.double(), other.forward, **options)
    for kept in findings:
        finer = precise[kept["property"]]
        if verdict(finer) not in (kept["verdict"], "not offered"):
            kept["in float64"] = {"verdict": verdict(finer), "what": finer.what}
        reading = other.readings.get(kept["property"])
        if reading and reading.link:
            kept["explained"] = {"reason": reading.why, "link": reading.link}
            kept.pop("reading", None)
        elif reading:
            kept["reading"] = reading.why
    named = {name: getattr(other, name) for name in ("name", "origin", "version", "url", "given")}
    healthy = [kept["property"] for kept in findings if kept["verdict"] != "fault"]
    again: dict[str, Any] = {"faults": repeated(other), "planted": planted(other, healthy)}
    again["enlarged"] = with_enlarged_weights(other)
    return {**named, "findings": findings, "seeds": SEEDS, **again}


def verdict(finding: Finding) -> str:
    return "ok" if finding.verdict == "passed" else finding.verdict


Question = tuple[list[int], list[int]]  # a source and a target


def questions(name: str) -> list[tuple[Question, Question]]:
    """Pairs whose answers show a fault of this property if any do, the shortest first."""
    start: Question = ([5], [6])
    later = [[7, 9, 11, 13, 15][:n] for n in range(1, 6)]
    pairs: dict[str, list[tuple[Question, Question]]] = {
        "causality": [(([5], [6, *words]), ([5], [6, *(w + 1 for w in words)])) for words in later],
        "own words": [(start, ([5], [7]))],
        "source": [(start, ([7], [6]))],
        "order": [(([5, 7], [6]), ([7, 5], [6])), (([5], [6, 7, 8]), ([5], [7, 6, 8]))],
        "padding": [(start, ([5, 0], [6])), (start, ([5], [6, 0]))],
        "cached": [(([5], [6, *words]), ([5], [6, *words])) for words in later],
    }
    return pairs.get(name, [])


def smallest(name: str, model: Any, other: Other) -> dict[str, Any]:
    """The first of these pairs that shows the fault, and how far its output moves."""
    model.eval()
    second = other.step if name == "cached" and other.step else other.forward
    shown: dict[str, Any] = {"source": [5], "target": [6]}
    for one, two in questions(name):
        with torch.no_grad():
            a, b = other.forward(model, *map(batch, one))[0], second(model, *map(batch, two))[0]
        known = 1 if name == "causality" else min(len(a), len(b))
        gaps = (a[:known] - b[:known]).abs().amax(-1)
        at = int(gaps.argmax()) if name == "cached" else known - 1
        beside = {} if name == "cached" else {"beside": dict(zip(SIDES, two, strict=True))}
        moves = {"output": at, "moves by": float(f"{float(gaps[at]):.2g}")}
        shown = dict(zip(SIDES, one, strict=True)) | beside | moves
        limit = 0.0 if name == "causality" else 1e-5
        if (float(gaps[at]) > limit) != (name in ("own words", "source", "order")):
            break
    return shown


def batch(tokens: list[int]) -> Tensor:
    return torch.tensor([tokens])


# --- Planted faults ---------------------------------------------------------------------------


def padding_as_words(forward: Forward, model: Any, source: Tensor, target: Tensor) -> Tensor:
    return forward(model, source.masked_fill(source == 0, 3), target)


def last_word_ahead(forward: Forward, model: Any, source: Tensor, target: Tensor) -> Tensor:
    """The source begins with the target's last word."""
    return forward(model, torch.cat([target[:, -1:].clamp(min=3), source], dim=1), target)


SEEDS = 3


def repeated(other: Other) -> dict[str, int]:
    """The faults that check finds with any of `SEEDS` seeds, and with how many."""
    found: collections.Counter[str] = collections.Counter()
    options: dict[str, Any] = {"step": other.step, "quiet": True, **WORDS}
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        report = check(other.build(), other.forward, **options)
        found.update(fault.property for fault in report.faults)
    return dict(found)


SPREAD = 0.1  # as ProphetNet's weights have here


def enlarged(model: Any) -> Any:
    """Its matrices with a smaller standard deviation are given this one."""
    with torch.no_grad():
        for weight in model.parameters():
            spread = float(weight.std()) if weight.dim() > 1 else 0.0
            if 0 < spread < SPREAD:
                weight.mul_(SPREAD / spread)
    return model


def with_enlarged_weights(other: Other) -> dict[str, Any]:
    """What check says then, in float64, or in float32 where float64 does not run."""
    options: dict[str, Any] = {"step": other.step, "quiet": True, **WORDS}
    for precision in ("float64", "float32"):
        found: collections.Counter[str] = collections.Counter()
        for seed in range(SEEDS):
            torch.manual_seed(seed)
            model = enlarged(other.build()).to(getattr(torch, precision))
            found.update(fault.property for fault in check(model, other.forward, **options).faults)
        if "runs" not in found:
            break
    return {"precision": precision, "faults": dict(found)}


PLANTED: dict[str, Callable[[Forward, Any, Tensor, Tensor], Tensor]] = {
    "padding": padding_as_words,
    "causality": last_word_ahead,
}


def planted(other: Other, properties: Sequence[str]) -> dict[str, int]:
    """For those of the properties that can be spoilt from outside: with how many of `SEEDS` seeds
    check finds it.
    """
    found = {name: 0 for name in PLANTED if name in properties}
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        model = other.build()
        for name in found:
            options: dict[str, Any] = {"quiet": True, **WORDS}
            report = check(model, partial(PLANTED[name], other.forward), **options)
            found[name] += report[name].verdict == "fault"
    return found


# --- From the package index -------------------------------------------------------------------


def packaged() -> Iterator[Other]:
    number = torch.__version__.partition("+")[0]
    at = f"https://github.com/pytorch/pytorch/blob/v{number}/torch/nn/modules/transformer.py"
    given = "A causal mask, and the padding of source and target; for the memory the source's."
    yield Other("torch.nn.Transformer", "torch", number, at, given, WithWords, WithWords.__call__)
    number = version("transformers")
    given = "Both attention masks, 1 for words; no cache. Word by word with it."
    folder = f"https://github.com/huggingface/transformers/blob/v{number}/src/transformers/models"
    for name, sizes in hugging_sizes().items():
        at = f"{folder}/{name.lower()}/modeling_{name.lower()}.py"
        title = {"Marian": "MarianMT", "Bart": "BART"}.get(name, name)
        yield Other(
            title, "transformers", number, at, given, partial(hugging, name, sizes),
            hugging_forward, hugging_step, HUGGING_READINGS.get(name, {}),
        )  # fmt: skip
    yield Other(
        "ProphetNet, repaired", "transformers", number, at, f"{given} {PERMUTED}",
        partial(repaired_prophet, hugging_sizes()["ProphetNet"]), hugging_forward, hugging_step,
        {"runs": Reading(PROPHET_FLOAT64)},
    )  # fmt: skip
    number = version("x-transformers")
    folder = f"https://github.com/lucidrains/x-transformers/blob/{number}"
    given = "The source's mask, True for words, in the encoder and for the decoder's context."
    yield Other(
        "XTransformer", "x-transformers", number, f"{folder}/x_transformers/x_transformers.py",
        given, x_transformer, x_forward, x_step,
    )  # fmt: skip


class WithWords(nn.Module):
    """nn.Transformer between embeddings, positions and a last matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(VOCAB, WIDTH), nn.Embedding(VOCAB, WIDTH)
        self.positions, self.output = SinusoidalPositions(WIDTH), nn.Linear(WIDTH, VOCAB)
        sizes = (WIDTH, HEADS, LAYERS, LAYERS, INNER)
        self.transformer = nn.Transformer(*sizes, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x, y = self.positions(self.source(source)), self.positions(self.target(target))
        logits: Tensor = self.output(self.transformer(x, y, **torch_masks(source, target)))
        return logits


def hugging_sizes() -> dict[str, dict[str, Any]]:
    """The same sizes under the names of each configuration."""
    words, special = {"vocab_size": VOCAB}, {"forced_eos_token_id": None, "d_model": WIDTH}
    parts = {"layers": LAYERS, "attention_heads": HEADS, "ffn_dim": INNER}
    sides = ("encoder", "decoder")
    both = special | {f"{side}_{part}": n for side in sides for part, n in parts.items()}
    t5 = {"d_model": WIDTH, "d_kv": WIDTH // HEADS, "d_ff": INNER, "num_layers": LAYERS}
    fsmt = {"langs": ["de", "en"], "src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB}
    prophet: dict[str, Any] = {f"{side}_ffn_dim": INNER for side in sides}
    for side in sides:
        prophet |= {f"num_{side}_layers": LAYERS, f"num_{side}_attention_heads": HEADS}
    # ProphetNet's own spread of the weights, 0.02, is for a width of 1024.
    return {
        "Marian": words | both,
        "Bart": words | both,
        "T5": words | t5 | {"num_heads": HEADS},
        "FSMT": fsmt | both,
        "ProphetNet": words | prophet | {"hidden_size": WIDTH, "init_std": 0.1},
    }


def hugging(name: str, sizes: dict[str, Any]) -> Any:
    """A small one with random weights; nothing is downloaded."""
    module = importlib.import_module("transformers")
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    kind = "MTModel" if name == "Marian" else "ForConditionalGeneration"
    return getattr(module, name + kind)(getattr(module, f"{name}Config")(**sizes, **special))


def repaired_prophet(sizes: dict[str, Any]) -> Any:
    """Its biases' dimensions are put into the order in which they are read."""
    return repair_prophet(hugging("ProphetNet", sizes))


def repair_prophet(model: Any) -> Any:
    """Only what it computes from now on: the same model is returned."""
    name, printed, right = (
        "get_predict_relative_pos_embeddings",
        "(0, 2, 1, 4, 3)",
        "(0, 1, 4, 2, 3)",
    )
    parts = [part for part in model.modules() if hasattr(part, name)]
    sources = [dedent(inspect.getsource(getattr(type(part), name))) for part in parts]
    if not parts or any(source.count(printed) != 1 for source in sources):
        raise SystemExit(f"there is no {name} with permute{printed}: another version?")
    for part, source in zip(parts, sources, strict=True):
        space = dict(vars(inspect.getmodule(type(part))))
        exec(source.replace(printed, right), space)
        setattr(part, name, MethodType(space[name], part))
    return model


def hugging_forward(model: Any, source: Tensor, target: Tensor) -> Tensor:
    masks = {"attention_mask": (source != 0).long(), "decoder_attention_mask": (target != 0).long()}
    options: dict[str, Any] = {"decoder_input_ids": target, "use_cache": False, **masks}
    logits: Tensor = model(input_ids=source, **options).logits
    return logits


def hugging_step(model: Any, source: Tensor, target: Tensor) -> Tensor:
    mask, past, steps = (source != 0).long(), None, []
    memory = model.get_encoder()(input_ids=source, attention_mask=mask)
    for end in range(1, target.shape[1] + 1):
        answer = model(
            encoder_outputs=memory,
            attention_mask=mask,
            decoder_input_ids=target[:, end - 1 : end],
            decoder_attention_mask=(target[:, :end] != 0).long(),
            past_key_values=past,
            use_cache=True,
        )
        past = answer.past_key_values
        steps.append(answer.logits)
    return torch.cat(steps, dim=1)


def x_transformer() -> Any:
    sizes = {"num_tokens": VOCAB, "max_seq_len": 64, "depth": LAYERS, "heads": HEADS}
    sizes |= {"attn_dim_head": WIDTH // HEADS, "ff_mult": INNER // WIDTH}
    both = {f"{side}_{name}": size for side in ("enc", "dec") for name, size in sizes.items()}
    return importlib.import_module("x_transformers").XTransformer(dim=WIDTH, pad_value=0, **both)


def x_forward(model: Any, source: Tensor, target: Tensor) -> Tensor:
    """What XTransformer.forward does, up to the loss."""
    mask = source != 0
    memory = model.encoder(source, mask=mask, return_embeddings=True)
    logits: Tensor = model.decoder.net(target, context=memory, context_mask=mask)
    return logits


def x_step(model: Any, source: Tensor, target: Tensor) -> Tensor:
    """As its generate does."""
    mask, cache, steps = source != 0, None, []
    memory = model.encoder(source, mask=mask, return_embeddings=True)
    options = {"context": memory, "context_mask": mask, "return_intermediates": True}
    for end in range(1, target.shape[1] + 1):
        logits, cache = model.decoder.net(target[:, :end], cache=cache, **options)
        steps.append(logits[:, -1:])
    return torch.cat(steps, dim=1)


# --- From packages that would bring much with them --------------------------------------------


def downloaded(folder: Path) -> Iterator[Other]:
    """labml-nn is imported; of joeynmt the classes are read."""
    numbers = {found.name: found.version for found in distributions(path=[str(folder)])}
    sys.path.append(str(folder))
    at = "https://pypi.org/project/{}/{}/"
    given = (
        "Masks [query, key, batch] as its MultiHeadAttention asks for; its generator comes last. "
        f"labml {numbers['labml']}: 0.5.1 to 0.5.3 have no tracker.debug, which it calls."
    )
    found = "labml-nn", numbers["labml-nn"]
    yield Other("labml-nn", *found, at.format(*found), given, labml, labml_forward)
    parts = run([folder / "joeynmt" / f"{name}.py" for name in JOEY_FILES], JOEY)
    given = "The masks of its Batch, True for words; pre-norm on both sides."
    found = "joeynmt", numbers["joeynmt"]
    yield Other("JoeyNMT", *found, at.format(*found), given, lambda: joey(parts), joey_forward)


def labml() -> Any:
    configs = importlib.import_module("labml_nn.transformers").TransformerConfigs()
    configs.d_model, configs.n_heads, configs.n_layers = WIDTH, HEADS, LAYERS
    configs.ffn.d_ff = INNER
    configs.n_src_vocab = configs.n_tgt_vocab = VOCAB
    return configs.encoder_decoder


def labml_forward(model: Any, source: Tensor, target: Tensor) -> Tensor:
    known = importlib.import_module("labml_nn.transformers.utils").subsequent_mask(target.shape[1])
    source_mask, target_mask = ((tokens != 0).T[None] for tokens in (source, target))
    x = model(source.T, target.T, source_mask, known & target_mask)
    logits: Tensor = model.generator(x).transpose(0, 1)
    return logits


JOEY_FILES = [
    "builders", "helpers", "transformer_layers", "encoders", "decoders", "embeddings",
    "initialization", "model",
]  # fmt: skip
JOEY = """build_activation subsequent_mask freeze_params MultiHeadedAttention
    PositionwiseFeedForward PositionalEncoding TransformerEncoderLayer TransformerDecoderLayer
    Encoder TransformerEncoder Decoder TransformerDecoder Embeddings initialize_model Model
    build_model"""


class Words(list[str]):
    """What JoeyNMT asks of its vocabulary."""

    pad_index, bos_index, eos_index, unk_index, sep_index = range(5)
    specials = lang_tags = ()


def joey(parts: Any) -> Any:
    side: dict[str, Any] = {"type": "transformer", "hidden_size": WIDTH, "ff_size": INNER}
    side |= {"num_layers": LAYERS, "num_heads": HEADS, "layer_norm": "pre", "dropout": 0.1}
    side |= {"embeddings": {"embedding_dim": WIDTH, "scale": True}}
    words = Words(map(str, range(VOCAB)))
    return parts.build_model({"encoder": side, "decoder": side}, words, words)


def joey_forward(model: Any, source: Tensor, target: Tensor) -> Tensor:
    source_mask, target_mask = ((tokens != 0).unsqueeze(1) for tokens in (source, target))
    lengths = (source != 0).sum(1)
    logits: Tensor = model._encode_decode(source, target, source_mask, lengths, target_mask)[0]
    return logits


# --- From repositories ------------------------------------------------------------------------

ANNOTATED = """EncoderDecoder Generator clones Encoder LayerNorm SublayerConnection EncoderLayer
    Decoder DecoderLayer subsequent_mask attention MultiHeadedAttention PositionwiseFeedForward
    Embeddings PositionalEncoding make_model Batch"""
SEQ2SEQ = """Encoder EncoderLayer MultiHeadAttentionLayer PositionwiseFeedforwardLayer Decoder
    DecoderLayer Seq2Seq initialize_weights"""
D2L = """HyperParameters ProgressBoard Module Classifier Encoder Decoder EncoderDecoder Seq2Seq
    masked_softmax DotProductAttention AttentionDecoder MultiHeadAttention PositionalEncoding
    PositionWiseFFN AddNorm TransformerEncoderBlock TransformerEncoder TransformerDecoderBlock
    TransformerDecoder"""


def cloned(folder: Path) -> Iterator[Other]:
    yield the_annotated_transformer(folder)
    yield pytorch_seq2seq(folder)
    yield from d2l(folder)


def the_annotated_transformer(folder: Path) -> Other:
    origin, commit = "harvardnlp/annotated-transformer", "debc9fd747bb2123160a98046ad1c2d4da44a567"
    parts, at = opened(folder, origin, commit, ["the_annotated_transformer.py"], ANNOTATED)
    given = "The masks of its Batch; its generator comes last, and gives log-probabilities."

    def build() -> Any:
        return parts.make_model(VOCAB, VOCAB, LAYERS, WIDTH, INNER, HEADS)

    def forward(model: Any, source: Tensor, target: Tensor) -> Tensor:
        source_mask = parts.Batch(source, pad=0).src_mask
        x = model(source, target, source_mask, parts.Batch.make_std_mask(target, 0))
        scores: Tensor = model.generator(x)
        return scores

    return Other("The Annotated Transformer", origin, commit, at, given, build, forward)


def pytorch_seq2seq(folder: Path) -> Other:
    origin, commit = "bentrevett/pytorch-seq2seq", "b3cd54c72cd6e4e63f672d334c795b4fe744ef92"
    path = "legacy/6 - Attention is All You Need.ipynb"
    parts, at = opened(folder, origin, commit, [path], SEQ2SEQ)
    given, why = "Tokens; it makes its masks from the number of the padding.", Reading(SCALE, at)

    def build() -> Any:
        sizes = VOCAB, WIDTH, LAYERS, HEADS, INNER, 0.1, torch.device("cpu")
        model = parts.Seq2Seq(parts.Encoder(*sizes), parts.Decoder(*sizes), 0, 0, sizes[-1])
        return model.apply(parts.initialize_weights)

    def forward(model: Any, source: Tensor, target: Tensor) -> Tensor:
        logits: Tensor = model(source, target)[0]
        return logits

    named = "pytorch-seq2seq, 6", origin, commit, at, given
    return Other(*named, build, forward, readings={"registered": why})


def d2l(folder: Path) -> Iterator[Other]:
    """Three times: its decoder has its causal mask only in training mode, and its steps begin anew
    at position 0.
    """
    origin, commit = "d2l-ai/d2l-en", "23d7a5aecceee57d1292c56e90cce307f183bb0a"
    paths = ["chapter_attention-mechanisms-and-transformers/transformer.md", "d2l/torch.py"]
    parts, at = opened(folder, origin, commit, paths, D2L)

    def build() -> Any:
        sizes = VOCAB, WIDTH, INNER, HEADS, LAYERS, 0.2
        encoder, decoder = parts.TransformerEncoder(*sizes), parts.TransformerDecoder(*sizes)
        model = parts.Seq2Seq(encoder, decoder, tgt_pad=0, lr=0.001)
        d2l_forward(model, batch([3, 4]), batch([3, 4]))  # its layers are lazy
        return model

    table = at.replace("transformer.md", "self-attention-and-positional-encoding.md")
    both = {"registered": Reading(D2L_TABLE, table)}
    given = "The source's lengths; in evaluation mode, as Trainer's validation asks."
    readings = {"causality": Reading(D2L_MASK), "padding": Reading(D2L_PADDING), **both}
    named = "d2l, evaluation mode", origin, commit, at, given
    readings["cached"] = Reading(D2L_CACHED)
    yield Other(*named, build, d2l_forward, d2l_step, readings)
    given = (
        "The source's lengths; the decoder's blocks in training mode, so with their causal mask, "
        "and no dropout. Word by word as predict_step does, in evaluation mode."
    )
    named = "d2l, mask put right", origin, commit, at, given
    yield Other(*named, build, d2l_training, d2l_step, {"cached": Reading(D2L_POSITIONS), **both})
    named = "d2l, mask and positions put right", origin, commit, at, f"{given} {POSITIONED}"
    yield Other(*named, build, d2l_training, partial(d2l_step, positions=True), both)


def d2l_forward(model: Any, source: Tensor, target: Tensor) -> Tensor:
    logits: Tensor = model(source, target, (source != 0).sum(1))
    return logits


def d2l_training(model: Any, source: Tensor, target: Tensor) -> Tensor:
    """The blocks alone change their mode; the dropouts inside them do not."""
    modes = [(block, block.training) for block in model.decoder.blks]
    try:
        for block, _ in modes:
            block.training = True
        return d2l_forward(model, source, target)
    finally:
        for block, mode in modes:
            block.training = mode


def d2l_step(model: Any, source: Tensor, target: Tensor, positions: bool = False) -> Tensor:
    """What predict_step does, with the words that it is given for those that it found; and, if
    asked, each word with the position at which it stands.
    """
    lengths = (source != 0).sum(1)
    state, steps = model.decoder.init_state(model.encoder(source, lengths), lengths), []
    encoding = model.decoder.pos_encoding
    table = encoding.P
    try:
        for at, word in enumerate(target.T[..., None]):
            encoding.P = table[:, at:] if positions else table
            logits, state = model.decoder(word, state)
            steps.append(logits)
    finally:
        encoding.P = table
    return torch.cat(steps, dim=1)


# --- Reading classes out of files -------------------------------------------------------------


def opened(folder: Path, origin: str, commit: str, paths: list[str], names: str) -> tuple[Any, str]:
    """The named classes and functions of files in a clone, and the first file's address."""
    clone = folder / origin.partition("/")[2]
    found = subprocess.check_output(["git", "-C", clone, "rev-parse", "HEAD"], text=True).strip()
    if found != commit:
        raise SystemExit(f"{clone} is at {found}; git -C {clone} checkout {commit}")
    parts = run([clone / path for path in reversed(paths)], names)
    return parts, f"https://github.com/{origin}/blob/{commit}/{paths[0].replace(' ', '%20')}"


def run(paths: list[Path], names: str) -> Any:
    """A module of the named definitions in these files, with the libraries that they use."""
    module, only = ModuleType("others"), set(names.split())
    known = {
        "torch": torch, "nn": nn, "F": F, "math": math, "copy": copy, "Tensor": Tensor,
        "log_softmax": F.log_softmax, "inspect": inspect, "collections": collections,
        "logger": logging.getLogger(__name__), "d2l": module, "nn_Module": nn.Module,
        "zeros": torch.zeros, "arange": torch.arange,
    }  # fmt: skip
    vars(module).update(known)
    for path in paths:
        tree = definitions(code_of(path), only)
        # As in this file, annotations are not evaluated.
        exec(compile(tree, str(path), "exec"), vars(module))
    missing = only - vars(module).keys()
    if missing:
        raise SystemExit(f"not in {', '.join(map(str, paths))}: {', '.join(sorted(missing))}")
    return module


def code_of(path: Path) -> str:
    """The Python in a module, a notebook, or a chapter of d2l (its cells for PyTorch)."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    elif path.suffix == ".md":
        sources = re.findall(r"```\{\.python \.input[^\n]*\n%%tab pytorch\n(.*?)```", text, re.S)
    else:
        return text
    return "\n".join(filter(parses, sources))


def parses(cell: str) -> bool:
    """A cell with magics or shell commands does not."""
    try:
        ast.parse(cell)
    except SyntaxError:
        return False
    return True


def definitions(code: str, only: set[str]) -> ast.Module:
    """The classes and functions with these names, and nothing else."""
    kinds = ast.FunctionDef | ast.ClassDef
    parts = [part for part in ast.parse(code).body if isinstance(part, kinds)]
    return ast.Module([part for part in parts if part.name in only], type_ignores=[])


# --- What we make of the faults ---------------------------------------------------------------

SCALE = (
    "The roots of the widths are tensors [1], kept as attributes on the device that the "
    "constructor is given, as in the notebook: no wrong number. A later .to(device) leaves them "
    "behind; register_buffer would not."
)
D2L_TABLE = (
    "The table of sinusoids is an attribute, and forward moves it to the device of its input at "
    "each call: no wrong number. register_buffer would move it once."
)
D2L_MASK = (
    "A bug. A block of the decoder hides later words only if self.training. Word by word there is "
    "nothing to hide, but Trainer.fit_epoch calls eval() and then validation_step, which gives the "
    "whole target: the validation loss is that of a decoder that reads ahead."
)
D2L_PADDING = "The same bug: padding behind the target is a later word too."
D2L_CACHED = (
    "Two bugs at once: whole targets read ahead, and word by word every word stands at position 0."
)
D2L_POSITIONS = (
    "A bug. predict_step gives the decoder one word at a time, and PositionalEncoding adds "
    "P[:, :1] to it: every word stands at position 0. With P[:, t:] at step t the outputs agree. "
    "Known to its readers: https://discuss.d2l.ai/t/transformer/5756?page=3"
)
FSMT_TABLES = (
    "That both are the same sinusoids is as it should be. But they are trained: requires_grad is "
    "True, where the docstring of SinusoidalPositionalEmbedding says that they are not. Only "
    "make_weight switches it off, and nothing calls it unless a sentence is longer than the table."
)
FSMT_FLOAT64 = "In float64 fill_with_neg_inf puts its lowest number into a tensor of float32."
PROPHET_ORDER = (
    "A bug, in get_predict_relative_pos_embeddings: permute(0, 2, 1, 4, 3) puts the rows in the "
    "order sentence, position, stream, head, and the view at the end reads them as sentence, "
    "stream, head, position. So one position is given what belongs to another, maybe a later one; "
    "which one depends on the target's length. With permute(0, 1, 4, 2, 3), as in the authors' own "
    "code, no fault is left."
)
PERMUTED = "Repaired here: permute(0, 1, 4, 2, 3) where the code has permute(0, 2, 1, 4, 3)."
POSITIONED = "Repaired here: P[:, t:] at step t."
PROPHET_FLOAT64 = (
    "In float64 its masks of integers become float32 and are multiplied by float64's lowest "
    "number: 0 times minus infinity. Masks of float64 give finite numbers."
)
HUGGING_READINGS = {
    "FSMT": {"runs": Reading(FSMT_FLOAT64), "tied": Reading(FSMT_TABLES)},
    "ProphetNet": {
        "runs": Reading(PROPHET_FLOAT64),
        **dict.fromkeys(("causality", "padding", "cached"), Reading(PROPHET_ORDER)),
    },
}


if __name__ == "__main__":
    main()

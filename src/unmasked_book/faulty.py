"""Makes small Transformers, each with one of the faults listed in faults.txt.

`FAULTY` holds for a fault's name a function that makes such a model, options for `unmasked.check`,
and the properties that the check must then report as broken: these, and no others.
"""

# ruff: noqa: ARG005 (the faulty versions take what the healthy one takes)

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from unmasked import Transformer, TransformerConfig, plain
from unmasked.checking.report import CLAIMS
from unmasked_book.workshop.mistakes import change, known, rows
from unmasked_book.workshop.reference import Changes, module, whole

SOURCE, TARGET = 13, 17  # words
VOCABULARIES = {"source_vocab": SOURCE, "target_vocab": TARGET}
WIDTH, HEADS = 8, 2
SIZES = (SOURCE, TARGET, WIDTH, HEADS, 2, 16, 0.0)


class Healthy(plain.Transformer):
    """A Healthy model is plain.py's Transformer with small sizes and no fault."""

    def __init__(self) -> None:
        super().__init__(*SIZES)


class Torch(nn.Module):
    """Torch is an nn.Transformer with embeddings and logits; `hidden` makes its causal mask."""

    def __init__(
        self,
        hidden: Callable[[Tensor], Tensor | None] = lambda ones: ones.triu(1),
        *,
        hides_padding_across: bool = True,
    ) -> None:
        super().__init__()
        self.hidden, self.hides_padding_across = hidden, hides_padding_across
        with warnings.catch_warnings(action="ignore"):  # of a fast path that some options close
            self.core = nn.Transformer(WIDTH, HEADS, 2, 2, 16, batch_first=True)
        self.source_words, self.target_words = (nn.Embedding(n, WIDTH) for n in (SOURCE, TARGET))
        self.register_buffer("table", plain.positions(30, WIDTH).float())
        self.output = nn.Linear(WIDTH, TARGET)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        table = cast(Tensor, self.table)
        x = self.source_words(source) + table[: source.shape[1]]
        y = self.target_words(target) + table[: target.shape[1]]
        padding, n = source == 0, target.shape[1]
        y = self.core(
            x, y, tgt_mask=self.hidden(torch.ones(n, n).bool()), src_key_padding_mask=padding,
            memory_key_padding_mask=padding if self.hides_padding_across else None,
        )  # fmt: skip
        return cast(Tensor, self.output(y))


def encode(model: plain.Transformer, source: Tensor) -> Tensor:
    memory = model.embed(model.source_embedding, source)
    for layer in model.encoder:
        memory = layer(memory, plain.padding_mask(source))
    return cast(Tensor, model.encoder_norm(memory))


def step(
    model: plain.Transformer,
    source: Tensor,
    target: Tensor,
    *,
    first: Callable[[int], int] = lambda _: 0,
    grows: Callable[[int], bool] = lambda _: True,
    encode: Callable[[plain.Transformer, Tensor], Tensor] = encode,
) -> Tensor:
    """Returns logits [B, T, V], computed token by token; layer i keeps its inputs if `grows(i)`."""
    memory, outputs = encode(model, source), []
    inputs: list[list[Tensor]] = [[] for _ in model.decoder]
    for time in range(target.shape[1]):
        x = model.embed(model.target_embedding, target[:, first(time) : time + 1])[:, -1:]
        for number, (layer, read) in enumerate(zip(model.decoder, inputs, strict=True)):
            read.append(x)
            past = torch.cat(read if grows(number) else read[-1:], dim=1)
            so_far = plain.causal_mask(past.shape[1])
            x = layer(past, memory, so_far, plain.padding_mask(source))[:, -1:]
        outputs.append(model.generator(model.decoder_norm(x)))
    return torch.cat(outputs, dim=1)


# --- What is no change of plain.py ----------------------------------------------------------------


def held_by_a_function() -> nn.Module:
    model, extra = Healthy(), nn.Linear(WIDTH, WIDTH)
    embed = model.embed
    model.embed = lambda *given: extra(embed(*given))  # type: ignore[method-assign]
    return model


def ours_at_the_first_position() -> nn.Module:
    sizes: dict[str, Any] = {"d_model": 16, "n_heads": 4, "n_layers": 2, "d_ff": 32}
    model = Transformer(TransformerConfig(**{**VOCABULARIES, **sizes}))
    embed = model.target_embedding.forward
    model.target_embedding.forward = lambda tokens, start=0: embed(tokens)  # type: ignore[method-assign]
    return model


MEMORIES: dict[int, Tensor] = {}


def encoded_once(model: plain.Transformer, source: Tensor) -> Tensor:
    return MEMORIES.setdefault(id(model), encode(model, source))


MADE: dict[str, Callable[[], nn.Module]] = {
    "torch's mask the other way round": lambda: Torch(torch.tril),
    "torch without a target mask": lambda: Torch(lambda _: None),
    "torch that sees padding in cross-attention": lambda: Torch(hides_padding_across=False),
    "a layer that only a function holds": held_by_a_function,
    "ours with every step at the first position": ours_at_the_first_position,
}
TIED = [("target_embedding.weight", "generator.weight")]
OPTIONS: dict[str, dict[str, Any]] = {
    "tied and then made anew": {"tied": TIED},
    "every step at the first position": {"step": lambda *given: step(*given, first=lambda t: t)},
    "a cache that does not grow": {"step": lambda *given: step(*given, grows=lambda n: n == 0)},
    "a memory of other sentences": {"step": lambda *given: step(*given, encode=encoded_once)},
    "one step too few": {"step": lambda *given: step(*given)[:, 1:]},
}


# --- The table ------------------------------------------------------------------------------------


class Fault(NamedTuple):
    make: Callable[[], nn.Module]
    properties: set[str]
    options: dict[str, Any]
    words: str  # what is wrong


def changes_of(written: str) -> tuple[str, Changes]:
    """Returns which class or function of plain.py a line of faults.txt changes, and the changes."""
    piece = "Transformer"
    if written.startswith("@"):
        piece, written = written[1:].split(" ", 1)
    if written.startswith("= "):
        return piece, next(each.changes for each in known(piece) if each.words == written[2:])
    return piece, (change(written),)


def maker(changes: list[tuple[str, Changes]]) -> Callable[[], nn.Module]:
    @cache
    def changed() -> Any:
        together: dict[str, Changes] = {}
        for piece, each in changes:
            together[piece] = (*together.get(piece, ()), *each)
        return module(whole(together.items())).Transformer

    return lambda: changed()(*SIZES)


def table() -> dict[str, Fault]:
    found = {}
    for _, (name, properties, words, *written) in rows(Path(__file__).with_name("faults.txt")):
        make = MADE.get(name) or maker([changes_of(each) for each in written])
        vocabularies = {} if name.startswith("ours") else VOCABULARIES  # ours are known
        options = {**vocabularies, **OPTIONS.get(name, {})}
        found[name] = Fault(make, set(properties.split(", ")), options, words)
    return found


FAULTY = table()


def listed() -> str:
    """Returns `FAULTY` as appendix D's Markdown table: each fault, and properties that find it."""
    rows = ["| name | what is wrong | properties that find it |", "|---|---|---|"]
    for name, (_, properties, _, words) in FAULTY.items():
        broken = ", ".join(claim for claim in CLAIMS if claim in properties)
        rows.append(f"| {name} | {words} | {broken} |")
    return "\n".join(rows)

"""What goes on inside a trained translator: its stream, its guesses on the way up, its sinks.

Each function takes many sentences, as (source, target) pairs, and reads the model while the right
translation is fed to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from matplotlib import rc_context
from torch import Tensor, nn

from unmasked.encoder import Residual
from unmasked.errors import check_choice
from unmasked.loss import teacher_forcing
from unmasked.plots.grids import frame
from unmasked.plots.picture import (
    COLOURS,
    GREY,
    INK,
    MARKERS,
    STRONG,
    STYLE,
    Picture,
    dress,
    labels,
    panels,
)
from unmasked.transformer import Transformer, evaluating
from unmasked.translator import Translator
from unmasked_book.ablation import attentions
from unmasked_book.captions import CAPTIONS, caption_words, direction
from unmasked_book.heads import Links, between_pieces, word_of_each

Pairs = Sequence[tuple[str, str]]
PALE = "#bcd4e8"  # a bar with another one inside


# --- Sentences --------------------------------------------------------------------------------


def caption_links(translator: Translator) -> list[Links]:
    """Which pieces of each caption belong together, (source, target), as drawn by hand."""
    vocabulary: Any = translator.source  # subwords, the same on both sides
    found = []
    for caption in CAPTIONS:
        texts = caption.german.lower(), caption.english.lower()
        german, english = (
            word_of_each(vocabulary.pieces(text), caption_words(text)) for text in texts
        )
        links = between_pieces(caption.alignment, german, english)
        turned = frozenset((t, s) for s, t in links)
        found.append(links if direction(translator)[0] == "de" else turned)
    return found


class Read(NamedTuple):
    """A batch as the model reads it, and what it should say."""

    source: Tensor  # [B, S]
    inputs: Tensor  # [B, T]
    labels: Tensor  # [B, T], 0 at padding


def batch_of(translator: Translator, pairs: Pairs) -> Read:
    source, target = translator.corpus(pairs).batch()
    inputs, wanted = teacher_forcing(target.to(translator.device))
    return Read(source.to(translator.device), inputs, wanted)


# --- Repetitions ------------------------------------------------------------------------------

FORMS = "ein", "sein", "ihr", "their"  # articles and possessives, and what begins like them


def long_words(text: str) -> list[str]:
    """Those of five letters or more."""
    return [word for word in re.findall(r"\w+", text.lower()) if len(word) > 4]


def has_repeats(text: str) -> bool:
    """Whether a long word, no article or possessive, occurs twice."""
    words = [word for word in long_words(text) if not word.startswith(FORMS)]
    return len(set(words)) < len(words)


# --- The stream -------------------------------------------------------------------------------


class Correction(NamedTuple):
    """What one sublayer did to the stream, as a mean over all real tokens."""

    name: str
    length: float  # of the stream after it
    added: float  # the length of what it added
    turned: float  # by how many degrees it turned the stream; 0 for the embedding


NAMES = {
    "attention_residual": "self-attention",
    "self_residual": "self-attention",
    "cross_residual": "cross-attention",
    "feed_forward_residual": "feed-forward",
}


def stream_parts(
    model: Transformer, source: Tensor, inputs: Tensor, side: str
) -> list[tuple[str, Tensor]]:
    """What is added to the stream of one side, "encoder" or "decoder", from bottom to top.

    The first is the embedding, then each sublayer's correction; they add up to the stream.
    """
    check_choice("side", side, ("encoder", "decoder"))
    found: list[tuple[str, Tensor]] = []

    def hear(name: str, _module: nn.Module, given: tuple[Any, ...], out: Tensor) -> None:
        if not found:
            found.append(("embedding", given[0]))
        found.append((name, out - given[0]))

    hooks = [
        module.register_forward_hook(partial(hear, f"{layer + 1} {NAMES[name]}"))
        for layer, block in enumerate(model.get_submodule(side).get_submodule("layers").children())
        for name, module in block.named_children()
        if isinstance(module, Residual)
    ]
    with removing(hooks), evaluating(model):
        model(source, inputs)
    return found


def corrections(translator: Translator, pairs: Pairs, side: str) -> list[Correction]:
    """Of one side, "encoder" or "decoder", from bottom to top; the first is the embedding."""
    read = batch_of(translator, pairs)
    parts = stream_parts(translator.model, read.source, read.inputs, side)
    real = (read.source if side == "encoder" else read.inputs) != 0
    stream = torch.zeros_like(parts[0][1])
    found: list[Correction] = []
    for name, added in parts:
        before, stream = stream, stream + added
        turned = angle(before, stream, real) if found else 0.0
        found.append(Correction(name, length(stream, real), length(added, real), turned))
    return found


def length(x: Tensor, real: Tensor) -> float:
    return x[real].norm(dim=-1).mean().item()


def angle(a: Tensor, b: Tensor, real: Tensor) -> float:
    """In degrees, as a mean over the real tokens."""
    cosines = nn.functional.cosine_similarity(a[real], b[real], dim=-1)
    return cosines.clamp(-1, 1).arccos().rad2deg().mean().item()


@contextmanager
def removing(hooks: Sequence[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def stream_picture(translator: Translator, pairs: Pairs, side: str) -> Picture:
    """Bars, from the embedding on: the stream's length and, in it, what was added; and the turn."""
    found = corrections(translator, pairs, side)
    title = f"the {side}'s stream, mean over {len(pairs)} captions"
    rows, turns = range(len(found)), [c.turned for c in found[1:]]
    with rc_context(STYLE):
        figure, [[axis, angles]] = panels(1, 2, 1.1 + 0.22 * len(found), wider=2.2)
        stream = axis.barh(rows, [c.length for c in found], 0.8, color=PALE, label="the stream")
        added = [c.added for c in found[1:]]
        axis.barh(rows[1:], added, 0.36, color=COLOURS[1], label="what was added")
        said = [
            f"{found[0].length:.0f}",
            *(f"{c.length:.0f}, {c.added:.0f} added" for c in found[1:]),
        ]
        axis.bar_label(stream, said, padding=4, color=GREY, fontsize=9)
        degrees = angles.barh(rows[1:], turns, 0.5, color=COLOURS[0])
        angles.bar_label(degrees, [f"{turn:.0f}°" for turn in turns], padding=4, color=GREY)
        axis.set_yticks(rows, [c.name for c in found])
        angles.set_yticks([])
        axis.set(xlabel="length", title=title)
        angles.set(xlabel="degrees", title="turned by")
        axis.margins(x=0.32)
        angles.set_xlim(0, max(36, 1.25 * max(turns)))  # the same for both sides of our models
        for each in (axis, angles):
            each.set_ylim(len(found) - 0.4, -0.6)
            each.spines[["top", "right"]].set_visible(False)
            each.tick_params(axis="y", length=0)
        figure.legend(loc="outside lower center", ncols=2)
    said[1:] = [f"{text}, turned {turn:.0f}°" for text, turn in zip(said[1:], turns, strict=True)]
    words = "; ".join(f"{c.name}: {text}" for c, text in zip(found, said, strict=True))
    return Picture(figure, f"{title}. Bars of length, and of the angle turned. {words}.")


# --- Guesses on the way up --------------------------------------------------------------------


def lens(translator: Translator, pairs: Pairs) -> tuple[Tensor, Read]:
    """What the decoder would say if it ended after each layer: [layers + 1, B, T, V].

    The first is before all layers. Each time the last norm and the last matrix are applied.
    """
    model, read = translator.model, batch_of(translator, pairs)
    streams: list[Tensor] = []
    decoder: Any = model.decoder

    def hear(_module: nn.Module, given: tuple[Any, ...], out: Tensor) -> None:
        streams.extend([out] if streams else [given[0], out])

    hooks = [layer.register_forward_hook(hear) for layer in decoder.layers]
    with removing(hooks), evaluating(model):
        model(read.source, read.inputs)
        norm = decoder.norm or nn.Identity()
        return torch.stack([model.generator(norm(x)) for x in streams]), read


def lens_picture(translator: Translator, source: str, target: str) -> Picture:
    """One sentence: each row a depth, each column a position, in it the likeliest token there.

    A frame says that it is the right one.
    """
    logits, read = lens(translator, [(source, target)])
    best, tokens = logits[:, 0].softmax(-1).max(-1)
    said = [[translator.target.words[token].strip("▁") for token in row] for row in tokens]
    inputs, wanted = (
        [translator.target.words[token].strip("▁") for token in row[0]]
        for row in (read.inputs, read.labels)
    )
    depths = ["embedding", *(f"layer {i + 1}" for i in range(len(said) - 1))]
    columns = [f"{a} → {b}" for a, b in zip(inputs, wanted, strict=True)]
    with rc_context(STYLE):
        figure, [[axis]] = panels(1, 1, 1.0 + 0.42 * len(said))
        image = axis.imshow(best.cpu().numpy(), STRONG, vmin=0.0, vmax=1.0, aspect="auto")
        image.set_interpolation("nearest")
        for row, words in enumerate(said):
            for column, word in enumerate(words):
                colour = "white" if best[row, column] > 0.55 else INK
                axis.text(column, row, word, ha="center", va="center", color=colour, fontsize=8.5)
                if tokens[row, column] == read.labels[0, column]:
                    frame(axis, row, column, inset=0.06)
        title = "likeliest next token after each layer"
        rows_named = labels("rows", depths, len(said))
        dress(axis, title, rows_named, columns, x="token read → next token")
        figure.colorbar(image, ax=axis, pad=0.02, label="probability")
    right = (tokens == read.labels[0]).sum(-1).tolist()
    rows = "; ".join(f"after {d}: {' '.join(row)}" for d, row in zip(depths, said, strict=True))
    told = f"The likeliest next token at each depth of the decoder. {rows}. Right, and framed: "
    return Picture(figure, f"{told}{', '.join(map(str, right))} of {len(columns)}.")


# --- Other weights ----------------------------------------------------------------------------


@contextmanager
def other_weights(
    model: Transformer, layer: int, how: str, seed: int = 0, *, head: int | None = None
) -> Iterator[None]:
    """Changes where one cross-attention looks, and not what it would find there.

    "shuffled": each query's weights on other source tokens; "even": the same weight on all. The
    keys are changed, and the values left alone; those of all heads, or of one.
    """
    check_choice("how", how, ("shuffled", "even"))
    generator = torch.Generator().manual_seed(seed)

    def change(_module: nn.Module, _given: tuple[Any, ...], keys: Tensor) -> Tensor:
        if how == "even":
            changed = torch.zeros_like(keys)
        else:
            pairs = zip(keys, orders, strict=True)
            changed = torch.stack([row[order.to(keys.device)] for row, order in pairs])
        if head is None:
            return changed
        heads = keys.unflatten(-1, (attention.n_heads, -1)).clone()
        heads[..., head, :] = changed.view_as(heads)[..., head, :]
        return heads.flatten(-2)

    orders: list[Tensor] = []

    def measure(_module: nn.Module, given: tuple[Any, ...]) -> None:
        orders.clear()
        for row in given[0] != 0:
            real = int(row.sum())
            mixed = torch.randperm(real, generator=generator)
            orders.append(torch.cat([mixed, torch.arange(real, len(row))]))

    attention = attentions(model)["cross", layer]
    hooks = [
        model.source_embedding.register_forward_pre_hook(measure),
        attention.key.register_forward_hook(change),
    ]
    with removing(hooks):
        yield


# --- Sinks ------------------------------------------------------------------------------------


def value_lengths(translator: Translator, pairs: Pairs, kind: str, place: int) -> Tensor:
    """How long the values at one position are, compared with all others', for each head.

    The kind is "encoder", "decoder" or "cross", the place 0 (the first token) or -1 (the last
    real one). [layers, H], 1 where they are as long as the mean.
    """
    model, read = translator.model, batch_of(translator, pairs)
    chosen = {at: module for at, module in attentions(model).items() if at[0] == kind}
    keys = read.inputs if kind == "decoder" else read.source
    real, values = keys != 0, {}
    last = real.sum(-1) - 1 if place == -1 else torch.zeros_like(real.sum(-1))
    hooks = [
        module.value.register_forward_hook(lambda _m, _x, out, at=at: values.update({at: out}))
        for at, module in chosen.items()
    ]
    with removing(hooks), evaluating(model):
        model(read.source, read.inputs)
    rows = []
    for (_, layer), module in sorted(chosen.items(), key=lambda item: item[0][1]):
        heads = values[kind, layer].unflatten(-1, (module.n_heads, -1)).norm(dim=-1)  # [B, S, H]
        there = heads[torch.arange(len(last), device=last.device), last].mean(0)
        rows.append(there / heads[real].mean(0))
    return torch.stack(rows).cpu()


def sink_picture(
    weights: Tensor, lengths: Tensor, *, named: Sequence[tuple[int, int]] = ()
) -> Picture:
    """Each head a point: the weight it gives to a token, and how long that token's value is.

    Both are [layers, H]. A layer has its own marker; the `named` heads, (layer, head) from 0, have
    their names beside them.
    """
    words = []
    with rc_context(STYLE):
        figure, [[axis]] = panels(1, 1, 3.4)
        for layer, (xs, ys) in enumerate(zip(lengths.tolist(), weights.tolist(), strict=True)):
            look: dict[str, Any] = {
                "color": COLOURS[layer % 6],
                "marker": MARKERS[layer % 6],
                "linestyle": "",
            }
            axis.plot(xs, ys, label=f"layer {layer + 1}", **look)
            for head, place in enumerate(zip(xs, ys, strict=True)):
                if (layer, head) in named:
                    beside: dict[str, Any] = {
                        "xytext": (6, 5),
                        "textcoords": "offset points",
                        "fontsize": 8.5,
                    }
                    axis.annotate(
                        f"layer {layer + 1}, head {head + 1}",
                        place,
                        color=COLOURS[layer % 6],
                        **beside,
                    )
                words.append(f"{layer + 1}.{head + 1}: {place[0]:.2f}, {place[1]:.2f}")
        x, y = "length of <bos>'s value / mean length of all values", "weight on <bos>"
        axis.axvline(1, color=GREY, lw=1, linestyle=":")
        axis.set(xlabel=x, ylabel=y, xlim=(0, None), ylim=(0, None))
        axis.margins(0.08)
        axis.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right center")
    return Picture(
        figure, f"Points, layer.head: {x}, {y}; a line at the mean, 1. {'; '.join(words)}."
    )

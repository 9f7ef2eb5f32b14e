"""The architecture in one picture: blocks that lead to their chapters, shapes on the arrows."""

from __future__ import annotations

from html import escape

from unmasked.config import NORMS
from unmasked.errors import check_choice

SITE = "https://transformer-unmasked.github.io/unmasked/book/"  # where the blocks lead
WORDS = (
    "The Transformer from top to bottom. Left, the encoder: source tokens [B, S] become vectors, "
    "get their positions added and pass N layers of self-attention under the padding mask and "
    "feed-forward, each with a residual and a norm; out comes the memory [B, S, D]. Right, the "
    "decoder: target tokens [B, T] become vectors, get their positions and pass N layers of "
    "self-attention under the causal and the padding mask, cross-attention to the memory under the "
    "source padding mask, and feed-forward; a last matrix makes logits [B, T, V]."
)
PRE_WORDS = WORDS.replace("each with a residual and a norm", "each with a norm before it")
PRE_WORDS = PRE_WORDS.replace("out comes the memory", "after a last norm, out comes the memory")
PRE_WORDS = PRE_WORDS.replace("; a last matrix", "; after a last norm, a last matrix")
STYLE = """
.unmasked-diagram { max-width: 40rem; overflow-x: auto; }
.unmasked-diagram svg { height: auto; min-width: 34rem; width: 100%; }
.unmasked-diagram text { fill: currentColor; font: 13px sans-serif; text-anchor: middle; }
.unmasked-diagram .shape { font: italic 12px sans-serif; opacity: .85; text-anchor: start; }
.unmasked-diagram .title { font: bold 14px sans-serif; }
.unmasked-diagram rect { rx: 6px; stroke: currentColor; stroke-opacity: .45; }
.unmasked-diagram path { fill: none; stroke: currentColor; stroke-width: 1.4; }
.unmasked-diagram .head { fill: currentColor; stroke: none; }
.unmasked-diagram .residual { stroke-dasharray: 4 3; stroke-opacity: .7; }
.unmasked-diagram a:hover rect, .unmasked-diagram a:focus-visible rect { stroke-width: 2.5; }
.unmasked-diagram a:hover rect { stroke-opacity: 1; }
"""
ATTENTION, WORK, NORM, EDGE = "#3f8fd2", "#3aa06c", "#c9a227", "#8a8f98"
HALF, GAP, TOP = 95, 20, 196  # half a block's width; room for a residual; the first sublayer

Link = tuple[str, str]  # a name, and the chapter that it leads to


class Diagram:
    """Self-contained SVG that takes its colours from the page, light or dark."""

    def __init__(self, pre: bool) -> None:
        self.pre = pre

    def _repr_html_(self) -> str:
        return svg(self.pre)

    def __repr__(self) -> str:
        return PRE_WORDS if self.pre else WORDS


def architecture(norm: str = "post") -> Diagram:
    """The whole Transformer, its blocks linked to their chapters: post-norm as in the paper's
    figure, or "pre" as in the models that ship.
    """
    check_choice("norm", norm, NORMS)
    return Diagram(norm == "pre")


def svg(pre: bool = False) -> str:
    encoder, decoder = 160, 470
    padding, both = ("padding mask", "01_masks"), ("causal and padding mask", "01_masks")
    own, think = ("self-attention", "03_attention"), ("feed-forward", "04_feed_forward")
    across = ("cross-attention", "06_decoder")
    source_padding = ("source padding mask", "01_masks")
    sides = [(own, padding), (think, None)], [(own, both), (across, source_padding), (think, None)]
    left, left_end, _ = stack(encoder, sides[0], pre)
    right, right_end, attentions = stack(decoder, sides[1], pre)
    cross = attentions[1]  # where the memory enters
    if pre:
        for x, parts, end in ((encoder, left, left_end), (decoder, right, right_end)):
            parts.append(arrow(f"M{x} {end} V{end + 28}", (x, end + 30)))
            parts.append(block(x, end + 30, ("norm", "05_encoder"), NORM, height=24))
        left_end, right_end = left_end + 54, right_end + 54
    memory, last = left_end + 58, right_end + 58
    parts = [
        *(label(x, 20, name, "title") for x, name in ((encoder, "encoder"), (decoder, "decoder"))),
        *column(encoder, "source tokens", "[B, S]"),
        *column(decoder, "target tokens", "[B, T]"),
        *left,
        *right,
        arrow(f"M{encoder} {left_end} V{memory - 2}", (encoder, memory)),
        label(encoder + 8, memory - 10, "[B, S, D]", "shape"),
        block(encoder, memory, ("memory", "05_encoder"), EDGE),
        f'<path d="M{encoder + HALF} {memory + 15} H318 V{cross} H{decoder - HALF - 2}"/>',
        head(decoder - HALF, cross, -7, 4),
        arrow(f"M{decoder} {right_end} V{last - 2}", (decoder, last)),
        label(decoder + 8, last - 10, "[B, T, D]", "shape"),
        block(decoder, last, ("last matrix", "07_transformer"), EDGE),
        arrow(f"M{decoder} {last + 30} V{last + 56}", (decoder, last + 58)),
        label(decoder + 8, last + 48, "[B, T, V]", "shape"),
        label(decoder, last + 76, "logits: a score for each possible next token"),
    ]
    said = escape(PRE_WORDS if pre else WORDS, quote=True)
    return (
        f'<div class="unmasked-diagram" tabindex="0" role="group" aria-label="{said}">'
        f'<style>{STYLE}</style><svg viewBox="0 0 640 {last + 86}">{"".join(parts)}</svg></div>'
    )


def column(x: int, name: str, tokens: str) -> list[str]:
    """From words to vectors with positions, at the top of either half."""
    return [
        label(x, 46, name),
        arrow(f"M{x} 52 V78", (x, 80)),
        label(x + 8, 70, tokens, "shape"),
        block(x, 80, ("embeddings · √D", "07_transformer"), EDGE),
        arrow(f"M{x} 110 V122", (x, 124)),
        block(x, 124, ("+ positions", "02_positional_encoding"), EDGE),
        arrow(f"M{x} 154 V{TOP - 2}", (x, TOP)),
        label(x + 8, 170, f"[B, {tokens[-2]}, D]", "shape"),
    ]


def stack(
    x: int, sublayers: list[tuple[Link, Link | None]], pre: bool
) -> tuple[list[str], int, list[int]]:
    """The sublayers of one half below each other, in a frame; where the last one ends; and the
    middle of each.
    """
    parts, y, middles = list[str](), TOP, list[int]()
    for number, (link, mask) in enumerate(sublayers):
        if number:
            parts.append(arrow(f"M{x} {y} V{y + 26}", (x, y + 28)))
            y += 28
        start = y
        if pre:
            parts.append(block(x, y, ("norm", "05_encoder"), NORM, height=24))
            parts.append(arrow(f"M{x} {y + 24} V{y + 36}", (x, y + 38)))
            y += 38
        middles.append(y + 30)
        parts.append(block(x, y, link, ATTENTION if mask else WORK))
        y += 30
        if mask:
            parts.append(block(x, y, mask, ATTENTION, height=22, opacity=0.12))
            y += 22
        parts.append(arrow(f"M{x} {y} V{y + 12}", (x, y + 14)))
        y += 14
        name, colour = ("add", EDGE) if pre else ("add & norm", NORM)
        parts.append(block(x, y, (name, "05_encoder"), colour, height=24))
        around = f"M{x} {start - 9} H{x + HALF + GAP} V{y + 12} H{x + HALF + 2}"
        parts.append(f'<path class="residual" d="{around}"/>{head(x + HALF, y + 12, 7, 4)}')
        y += 24
    frame = (
        f'<rect x="{x - HALF - 14}" y="176" width="{2 * HALF + GAP + 26}" height="{y - 160}" '
        f'fill="none" stroke-dasharray="2 3"/>'
    )
    return [frame, *parts, label(x + HALF + 18, y + 31, "N ×", "title")], y, middles


def block(x: int, y: int, link: Link, colour: str, height: int = 30, opacity: float = 0.25) -> str:
    name, chapter = link
    box = (
        f'<rect x="{x - HALF}" y="{y}" width="{2 * HALF}" height="{height}" '
        f'fill="{colour}" fill-opacity="{opacity}"/>'
    )
    return f'<a href="{SITE}{chapter}.html">{box}{label(x, y + height // 2 + 4, name)}</a>'


def arrow(path: str, tip: tuple[int, int]) -> str:
    """A line that ends in a head pointing down."""
    return f'<path d="{path}"/>{head(*tip, 4, -7)}'


def head(x: int, y: int, dx: int, dy: int) -> str:
    """An arrow's head at x, y: pointing down where dy is negative, else sideways, away from dx."""
    wings = (x - dx, y + dy, x + dx, y + dy) if dy < 0 else (x + dx, y - dy, x + dx, y + dy)
    return f'<polygon class="head" points="{x},{y} {wings[0]},{wings[1]} {wings[2]},{wings[3]}"/>'


def label(x: int, y: int, words: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>'

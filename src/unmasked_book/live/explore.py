"""Makes the three figures that a reader can change: a beam search, masks, positions.

A notebook displays each as a picture, which stays where no script runs (GitHub, paper), and an HTML
element that takes the picture's place where one does. Its script comes with it: nothing is loaded.
"""

from __future__ import annotations

import copy
import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib import rc_context
from matplotlib.patches import Circle

from unmasked.attention import masked_softmax
from unmasked.errors import invalid, require_type, require_whole
from unmasked.masks import causal_mask
from unmasked.plots import sentence_maps
from unmasked.plots.picture import COLOURS, DASHES, GREY, PAD, STYLE, Picture, tiles
from unmasked.positions import frequencies, sinusoids
from unmasked.search import limits_of
from unmasked.translator import Translator
from unmasked_book.live.bundle import bundle
from unmasked_book.search_tree import grown, log_probabilities, plot_tree, trace_beam


@dataclass
class Explorable:
    """An Explorable shows a picture, and the HTML element that replaces it where scripts run."""

    name: str
    picture: Picture
    words: str
    data: dict[str, Any]

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.picture)
        display({"text/html": self.html(), "text/plain": self.words}, raw=True)

    def html(self) -> str:
        """Returns the HTML element with its script and style; the same data give the same text."""
        data = html.escape(json.dumps(self.data, ensure_ascii=False, separators=(",", ":")))
        element, said = f"unmasked-{self.name}", html.escape(self.words)
        return (
            f'<{element} class="unmasked-live" role="group" aria-label="{said}" data="{data}">'
            f"</{element}>\n<script>\n{bundle(f'widgets/{self.name}.js')}</script>"
        )


# --- Beam search (chapter 9) ------------------------------------------------------------------

Beginning = tuple[int, ...]
WIDEST, PENALTIES = 5, (0.0, 0.6, 1.0, 1.4)
WIDTH, PENALTY = 4, 0.0  # at first


def explore_beam(translator: Translator, sentence: str) -> Explorable:
    """Returns a figure of a sentence's beam search as a tree, to walk through with beams of 1 to 5.

    The page searches by itself: its data hold the likeliest next tokens after each beginning of a
    translation that any of these searches needs.
    """
    require_type("translator", translator, Translator)
    if not sentence.strip():
        raise invalid("sentence", "a sentence", repr(sentence), "give one to translate")
    # In float64 the third digit is the same on every machine.
    model = copy.deepcopy(translator.model).cpu().double()
    source = translator.tokens([sentence])
    limit = int(limits_of(model, source, None))
    count = min(2 * WIDEST, model.config.target_vocab - 1)  # none is padding
    known: dict[Beginning, list[tuple[int, float]]] = {}

    def after(beginning: Sequence[int]) -> list[tuple[int, float]]:
        """Returns the likeliest next tokens, with log-probabilities rounded to three digits."""
        if tuple(beginning) not in known:
            best = log_probabilities(model, source, beginning).topk(count)
            values = [round(value, 3) for value in best.values.tolist()]
            known[tuple(beginning)] = list(zip(best.indices.tolist(), values, strict=True))
        return known[tuple(beginning)]

    widths = [*range(1, WIDEST + 1)]
    winners = [grown(after, width, limit, alpha)[1] for alpha in PENALTIES for width in widths]
    pieces = translator.target.words
    start, tree = {"width": WIDTH, "penalty": PENALTY}, branches(known, pieces)
    data = {"sentence": sentence, "limit": limit, "widths": widths, "penalties": [*PENALTIES],
            "start": start, "tree": tree}  # fmt: skip
    found = dict.fromkeys(f"“{translator.target.decode(winner.path())}”" for winner in winners)
    words = (
        f"A beam search for “{sentence}”, to walk through step by step, with a width of 1 to "
        f"{WIDEST} and a length penalty of {', '.join(f'{alpha:g}' for alpha in PENALTIES)}. "
        f"The sentences that win: {', '.join(found)}."
    )
    root, best = trace_beam(model, source, WIDTH, length_penalty=PENALTY)
    plain = [piece.removeprefix("▁") for piece in pieces]
    return Explorable("beam", plot_tree(root, best, plain), words, data)


def branches(
    known: dict[Beginning, list[tuple[int, float]]], pieces: Sequence[str], begun: Beginning = ()
) -> list[list[Any]]:
    """Returns [token, log-probability, its branches if known] for each next token after `begun`."""
    tree: list[list[Any]] = []
    for token, value in known[begun]:
        tree.append([pieces[token], value])
        if (longer := (*begun, token)) in known:
            tree[-1].append(branches(known, pieces, longer))
    return tree


# --- Masks (chapter 1) ------------------------------------------------------------------------

ATTENTIONS = {  # name → whose tokens are the queries, and whose the keys
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross-attention": ("target", "source"),
}
MOST_TOKENS = 6  # columns that fit on a phone


def explore_masks(source: Sequence[str], target: Sequence[str]) -> Explorable:
    """Returns a figure of the three attention masks of a sentence pair, to change, with weights.

    The scores are drawn at random, once: whatever changes is the mask's doing.
    """
    for name, given in (("source", source), ("target", target)):
        if isinstance(given, str) or not 1 <= len(given) <= MOST_TOKENS:
            expected = f"a list of 1 to {MOST_TOKENS} tokens"
            raise invalid(name, expected, repr(given), "take a short sentence, and split it")
    tokens = {"source": list(source), "target": list(target)}
    draws = torch.Generator().manual_seed(0)
    attentions, weights = [], []
    for name, (queries, keys) in ATTENTIONS.items():
        drawn = torch.randn(len(tokens[queries]), len(tokens[keys]), generator=draws)
        scores = [[round(score, 1) + 0.0 for score in row] for row in drawn.tolist()]  # no -0.0
        attentions.append({"name": name, "queries": queries, "keys": keys, "scores": scores})
        mask = causal_mask(len(target)) if name == "decoder" else None
        weights.append(masked_softmax(torch.tensor(scores), mask))
    encoder, decoder, cross = weights
    picture = sentence_maps(source, target, encoder=encoder, decoder=decoder, cross=cross)
    words = (
        f"Explore masks: attention in the encoder, in the decoder and across, for the source "
        f"“{' '.join(source)}” and the target “{' '.join(target)}”. Choose how many tokens are "
        "real, whether the mask is causal, and single pairs; read the weights of a row."
    )
    data = {"tokens": tokens, "padding": PAD, "attentions": attentions}
    return Explorable("masks", picture, words, data)


# --- Positions (chapter 2) --------------------------------------------------------------------

LAST = {"position": 100, "offset": 50}  # where the sliders end
WIDTHS = (8, 16)


def explore_positions(position: int = 12, offset: int = 3) -> Explorable:
    """Returns a figure of sinusoids as hands of clocks: at a position, and `offset` further on.

    Each pair of columns is one clock. The reader can choose the number of columns from `WIDTHS`.
    """
    start = {"position": position, "offset": offset}
    for name, value in start.items():
        require_whole(name, value, 0)
        if value > LAST[name]:
            raise invalid(name, f"at most {LAST[name]}", value, "its slider ends there")
    words = (
        f"Explore positions: clocks whose hands are the pairs of columns, of width "
        f"{' or '.join(map(str, WIDTHS))}. Move a position from 0 to {LAST['position']} and an "
        f"offset from 0 to {LAST['offset']}; read how far each hand turns, and the dot product."
    )
    data = {"widths": [*WIDTHS], **start, "last": LAST}
    return Explorable("positions", clocks(WIDTHS[0], position, offset), words, data)


def clocks(width: int, position: int, offset: int) -> Picture:
    """Draws a clock for each pair of columns, a hand for each position: sine right, cosine up."""
    places = (position, position + offset)
    hands = [sinusoids(place, 1, width).view(-1, 2).tolist() for place in places]
    turns = [f"{omega * offset:.3f}" for omega in frequencies(width).tolist()]
    with rc_context(STYLE):
        figure, axes = tiles(len(turns), 4, height=2.1)
        for axis, turn, *ends in zip(axes, turns, *hands, strict=True):
            axis.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal")
            axis.axis("off")
            axis.set_title(f"turned by {turn}", fontsize=9.5, fontweight="normal")
            axis.add_patch(Circle((0, 0), 1, fill=False, edgecolor=GREY))
            for i, (x, y) in enumerate(ends):
                style = {"color": COLOURS[i], "linestyle": DASHES[i], "lw": 2.5}
                axis.plot([0, x], [0, y], label=f"position {places[i]}", **style)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    words = (
        f"Clocks, one for each pair of columns of width {width}. From position {places[0]} to "
        f"position {places[1]} the hands turn by {', '.join(turns)} radians."
    )
    return Picture(figure, words)

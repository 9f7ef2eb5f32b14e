"""Draws what others show of a shared link to the book: book/_static/card.png."""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib.figure import Figure

import unmasked
from unmasked.plots.picture import GREY, INK, STRONG, STYLE
from unmasked.tokens import BOS

CARD = Path(__file__).parents[1] / "book/_static/card.png"
SENTENCE = "ein hund schläft unter dem tisch."
LAYER, HEAD = 1, 1  # of cross-attention, from 0


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    translator = unmasked.load("de-en")
    source = translator.tokens([SENTENCE])
    read = translator.source.pieces(SENTENCE)
    english = translator.translate([SENTENCE])[0]
    written = translator.target.pieces(english)
    target = torch.tensor([[BOS, *translator.target.encode(english)]])
    _, maps = translator.model(source, target, need_weights=True)
    weights = maps.cross[LAYER][0, HEAD, : len(written), : len(read)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(12, 6.3), facecolor="white")
        axis = figure.add_axes((0.63, 0.1, 0.34, 0.62))
        axis.imshow(weights.detach().numpy(), STRONG, vmin=0, vmax=1, aspect="auto")
        axis.set_xticks(
            range(len(read)), [w.strip("▁") for w in read], fontsize=19, rotation=40, ha="left"
        )
        axis.set_yticks(range(len(written)), [w.strip("▁") for w in written], fontsize=19)
        axis.xaxis.tick_top()
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        figure.text(0.05, 0.66, "The Transformer,\nUnmasked", fontsize=42, weight="bold", color=INK)
        about = "An executable book, and the small,\ntested package that every page runs on."
        figure.text(0.05, 0.44, about, fontsize=18, color=INK)
        figure.text(0.05, 0.1, "read · run · break it in your browser", fontsize=18, color=GREY)
        figure.savefig(CARD, dpi=100, metadata={"Software": None})
    print(f"{CARD.relative_to(Path.cwd())}: {CARD.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

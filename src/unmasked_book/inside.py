"""Splits a translator's residual stream, and draws which token each layer guesses (chapter 12)."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from matplotlib import rc_context
from torch import Tensor, nn

from unmasked.encoder import Residual
from unmasked.loss import teacher_forcing
from unmasked.plots.grids import frame
from unmasked.plots.picture import INK, STRONG, STYLE, Picture, dress, panels
from unmasked.tokens import Vocabulary
from unmasked.transformer import Transformer, evaluating
from unmasked.translator import Translator
from unmasked_book.captions import CAPTIONS, caption_words, direction
from unmasked_book.heads import Links, word_of_each


def caption_links(translator: Translator) -> list[Links]:
    """Returns each caption's (source, target) positions of subwords that translate each other."""
    vocabulary: Any = translator.source  # subwords, the same on both sides
    found = []
    for caption in CAPTIONS:
        german, english = (
            word_of_each(vocabulary.pieces(text), caption_words(text))
            for text in (caption.german.lower(), caption.english.lower())
        )
        links = {  # all pieces of one word with all pieces of the other
            (i, j) if direction(translator)[0] == "de" else (j, i)
            for (i, a), (j, b) in product(enumerate(german), enumerate(english))
            if (a, b) in caption.alignment
        }
        found.append(frozenset(links))
    return found


class Read(NamedTuple):
    """Read holds a batch for teacher forcing: source, decoder's inputs, and tokens to predict."""

    source: Tensor  # [B, S]
    inputs: Tensor  # [B, T]
    labels: Tensor  # [B, T], 0 at padding


def batch_of(translator: Translator, pairs: Sequence[tuple[str, str]]) -> Read:
    source, target = translator.corpus(pairs).batch()
    inputs, wanted = teacher_forcing(target.to(translator.device))
    return Read(source.to(translator.device), inputs, wanted)


NAMES = {"attention_residual": "attention", "self_residual": "self-attention",
         "cross_residual": "cross-attention", "feed_forward_residual": "feed-forward"}  # fmt: skip


def stream_parts(
    model: Transformer, source: Tensor, inputs: Tensor, side: str = "decoder"
) -> list[tuple[str, Tensor]]:
    """Returns (name, tensor) of the embedding and of all that sublayers add to it, in order."""
    found: list[tuple[str, Tensor]] = []

    def hear(name: str, _module: nn.Module, given: tuple[Any, ...], out: Tensor) -> None:
        if not found:
            found.append(("embedding", given[0]))
        found.append((name, out - given[0]))

    with evaluating(model), ExitStack() as listening:
        for layer, block in enumerate(model.get_submodule(f"{side}.layers").children()):
            for name, module in block.named_children():
                if isinstance(module, Residual):
                    told = partial(hear, f"{layer + 1} {NAMES[name]}")
                    listening.enter_context(module.register_forward_hook(told))
        model(source, inputs)
    return found


def lens_picture(
    vocabulary: Vocabulary, probabilities: Tensor, tokens: Tensor, inputs: Tensor, wanted: Tensor
) -> Picture:
    """Draws a sentence's likeliest next tokens after each layer (row), at each position (column).

    `probabilities` and `tokens` are [depths, T], `inputs` and `wanted` [T]. Right ones are framed.
    """

    def words(row: Tensor) -> list[str]:
        return [vocabulary.words[token].strip("▁") for token in row.tolist()]

    said = [words(row) for row in tokens]
    depths = ["embedding", *(f"layer {i + 1}" for i in range(len(said) - 1))]
    columns = [f"{a} → {b}" for a, b in zip(words(inputs), words(wanted), strict=True)]
    with rc_context(STYLE):
        figure, [[axis]] = panels(1, 1, 1.0 + 0.42 * len(said))
        image = axis.imshow(probabilities.cpu().numpy(), STRONG, vmin=0.0, vmax=1.0, aspect="auto")
        for row, guesses in enumerate(said):
            for column, word in enumerate(guesses):
                colour = "white" if probabilities[row, column] > 0.55 else INK
                axis.text(column, row, word, ha="center", va="center", color=colour, fontsize=8.5)
                if tokens[row, column] == wanted[column]:
                    frame(axis, row, column, inset=0.06)
        title = "likeliest next token after each layer"
        dress(axis, title, depths, columns, x="token read → next token")
        figure.colorbar(image, ax=axis, pad=0.02, label="probability")
    right = (tokens == wanted).sum(-1).tolist()
    rows = "; ".join(f"after {d}: {' '.join(row)}" for d, row in zip(depths, said, strict=True))
    told = f"The likeliest next token at each depth of the decoder. {rows}. Right, and framed: "
    return Picture(figure, f"{told}{', '.join(map(str, right))} of {len(columns)}.")

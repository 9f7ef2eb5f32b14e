"""Makes an HTML viewer of one sentence pair's attention weights, in every layer and head."""

import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from torch import Tensor

from ..attention import AttentionMaps
from ..errors import invalid

KINDS = {  # title → maps, and the sides whose words are queries and keys
    "across: target looks at source": ("cross", "target", "source"),
    "encoder: source looks at itself": ("encoder", "source", "source"),
    "decoder: target looks back": ("decoder", "target", "target"),
}


class View:
    """A view holds a viewer as self-contained HTML, `page`, and its description, `words`."""

    def __init__(self, page: str, words: str) -> None:
        self.page, self.words = page, words

    def _repr_html_(self) -> str:
        return self.page

    def __repr__(self) -> str:
        return self.words


def attention_view(
    maps: AttentionMaps,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    *,
    layer: int = 0,
    head: int = 0,
) -> View:
    """Returns a viewer of one sentence pair's attention: choose layer and head, point at a word.

    The maps are those of `model(…, need_weights=True)` for a batch of one; the tokens are the words
    that the encoder and the decoder have read. It opens at cross-attention's `layer` and `head`.
    """
    words = {"source": written(source_tokens), "target": written(target_tokens)}
    n_heads = maps.cross[0].shape[-3]
    opens = [range(len(maps.cross))[layer], range(n_heads)[head]]  # an IndexError: there is none
    data: dict[str, Any] = {"words": words, "maps": {}, "opens": opens}
    for title, (kind, queries, keys) in KINDS.items():
        layers = [
            percent(f"maps.{kind}", layer, len(words[queries]), len(words[keys]))
            for layer in getattr(maps, kind)
        ]
        data["maps"][title] = {"queries": queries, "keys": keys, "layers": layers}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    words_said = (
        f"Attention viewer: {len(maps.encoder)} layers in the encoder, {len(maps.decoder)} in the "
        f"decoder, {n_heads} heads, source “{' '.join(words['source'])}”, "
        f"target “{' '.join(words['target'])}”."
    )
    page = files("unmasked.plots").joinpath("viewer.html").read_text(encoding="utf-8")
    name = hashlib.sha256(text.encode()).hexdigest()[:8]
    parts = {"@ID@": name, "@WORDS@": html.escape(words_said), "@DATA@": text}
    # In one pass, so that a word such as "@ID@" in the data is not replaced in its turn.
    return View(re.sub("@(ID|WORDS|DATA)@", lambda found: parts[found[0]], page), words_said)


def written(tokens: Sequence[str]) -> list[str]:
    """Returns the tokens, with "?" for each character that UTF-8 cannot encode."""
    return [token.encode(errors="replace").decode() for token in tokens]


def percent(name: str, layer: Tensor, queries: int, keys: int) -> list[list[list[int]]]:
    """Returns one layer's attention weights, [1, H, Q, S] or [H, T, S], as whole percents."""
    layer = layer[0] if layer.dim() == 4 and len(layer) == 1 else layer
    if layer.dim() != 3 or layer.shape[1:] != (queries, keys):
        expected = f"one sentence's weights, [heads, {queries}, {keys}] as there are words"
        fix = "give the maps of a batch of one and as many words as the model has read"
        raise invalid(name, expected, f"shape {list(layer.shape)}", fix)
    return (100 * layer.detach().cpu().float()).round().int().tolist()

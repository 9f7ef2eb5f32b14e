"""The trained model in a page: one call in a notebook, and the box that the book's pages hold."""

from __future__ import annotations

import base64
import html
import json
from functools import cache
from typing import Any
from uuid import uuid4

import torch

from unmasked.errors import check_choice
from unmasked.plots.viewer import View
from unmasked.translator import folder_of, shipped_models
from unmasked_book.live.bundle import HERE, bundle
from unmasked_book.live.packing import packed
from unmasked_book.records import recorded

WORDS = {
    "de-en": "A caption in German, translated by the book's model as you type.",
    "en-de": "A caption in English, translated by the book's model as you type.",
}


def live(model: str = "de-en") -> View:
    """The trained model, alive in this cell's output: type, look where it looks, break it.

    Works in JupyterLab, Colab and VS Code, without a network. The output holds the model itself,
    about 3 MB: clear it before you save the notebook.
    """
    check_choice("model", model, tuple(shipped_models()))
    data = base64.b64encode(model_file(model)).decode("ascii")
    box = f"unmasked-live-{uuid4().hex}"  # also beside the outputs of other kernels
    call = f'unmaskedLive(document.getElementById("{box}"), {json.dumps(page(model, [model]))});'
    given = (
        f'(globalThis.unmaskedModels = globalThis.unmaskedModels || {{}})["{model}"] = "{data}";'
    )
    return View(
        f'<div class="unmasked-live" id="{box}" role="region" aria-label="{WORDS[model]}"></div>\n'
        f"<script>\n{given}\n{script()}{call}\n</script>",
        f"{WORDS[model]} It needs a notebook that shows HTML and runs its scripts.",
    )


def page(model: str, names: list[str], **where: Any) -> dict[str, Any]:
    """What the script has to know: the models, their sizes and best heads, and where files are."""
    sizes = {name: f"{len(model_file(name)) / 1e6:.1f}" for name in names}
    best = {name: best_head(name) for name in names}
    return {"model": model, "names": names, "megabytes": sizes, "best": best, "at": "", **where}


def box(model: str, at: str, *, broken: bool = False) -> str:
    """What a page of the book holds before the click: a button that says how much it loads."""
    data = page(model, sorted(shipped_models()), at=at, linked=True, open=broken)
    megabytes = f"{(len(model_file(model)) + len(script())) / 1e6:.1f}"
    values = {
        "WORDS": WORDS[model],
        "DATA": html.escape(json.dumps(data, separators=(",", ":"))),
        "MB": megabytes,
    }
    text = (HERE / "widgets/button.html").read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def script() -> str:
    """All of the translator's code and style, as one classic script."""
    return bundle("widgets/page.js")


@cache
def model_file(name: str) -> bytes:
    return packed(folder_of(name))


def best_head(name: str) -> tuple[int, int]:
    """The layer and head whose cross-attention looks most at the word that is being translated."""
    aligned = torch.tensor(recorded(f"multi30k-{name}")["atlas"]["cross"]["aligned"])
    layer, head = divmod(int(aligned.argmax()), aligned.shape[1])
    return layer, head

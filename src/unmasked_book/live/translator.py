"""Puts the trained model into a notebook's output, and into a box on the book's pages."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from functools import cache
from pathlib import Path
from uuid import uuid4

from unmasked.plots.viewer import View
from unmasked.translator import path_of, shipped_models
from unmasked_book.figures import figure
from unmasked_book.live.bundle import HERE, bundle
from unmasked_book.live.code import lines_of_places
from unmasked_book.live.packing import packed
from unmasked_book.live.tables import PARTS
from unmasked_book.records import recorded

WORDS = {
    "de-en": "A caption in German, translated by the book's model as you type.",
    "en-de": "A caption in English, translated by the book's model as you type.",
}


def live(model: str | Path = "de-en") -> View:
    """Returns a view of a trained model for a cell's output: type, open every box of it, break it.

    It takes what `unmasked.load` takes, but for OPUS-MT's models, and works in JupyterLab, Colab
    and VS Code without a network. The output holds the model itself, about 3 MB for a shipped one:
    clear it before you save the notebook.
    """
    name = str(model) if str(model) in shipped_models() else "your model"
    data = base64.b64encode(packed(path_of(model))).decode("ascii")
    box = f"unmasked-live-{uuid4().hex}"  # also beside the outputs of other kernels
    page = json.dumps({"names": [name], "at": ""})
    call = f'unmaskedLive(document.getElementById("{box}"), {page});'
    given = f'(globalThis.unmaskedModels = globalThis.unmaskedModels || {{}})["{name}"] = "{data}";'
    words = WORDS.get(name, "A sentence, translated by your model as you type.")
    return View(
        f'<div class="unmasked-live" id="{box}" role="region" aria-label="{words}"></div>\n'
        f"<script>\n{given}\n{script()}{call}\n</script>",
        f"{words} It needs a notebook that shows HTML and runs its scripts.",
    )


def camel(name: str) -> str:
    """Returns a name such as `encoder_self` as the script writes it: `encoderSelf`."""
    return re.sub("_(.)", lambda found: found[1].upper(), name)


def box(model: str, at: str, *, drawn: bool = False) -> str:
    """Returns the live figure's HTML before a click loads it: a button that says how many MB.

    If `drawn`, with the drawing of the architecture too, as on paper.
    """
    others = sorted(set(shipped_models()) - {model})
    data = {"names": [model, *others], "at": at, "linked": True}
    sent = len(model_file(model)) + len(gzip.compress(script().encode()))  # as servers send scripts
    drawing = figure("architecture-pre")._repr_html_() if drawn else ""
    values = {
        "FIGURE": f'<div class="unmasked-static">{drawing}</div>' if drawn else "",
        "WORDS": WORDS[model],
        "DATA": html.escape(json.dumps(data, separators=(",", ":"))),
        "MB": f"{sent / 1e6:.1f}",
    }
    text = (HERE / "widgets/button.html").read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


@cache
def script() -> str:
    """Returns the live translator's JavaScript and style as one classic script."""
    text = bundle("widgets/page.js")
    names = {camel(part): name for part, name in PARTS.items() if part}
    scores = {
        model: {camel(part): f"{row['bleu']:.1f}" for part, row in rows.items()}
        for model, rows in recorded("ablations")["models"].items()
    }
    for name, known in (("LINES", lines_of_places()), ("NAMES", names), ("BLEU", scores)):
        kept = json.dumps(known, ensure_ascii=False, separators=(",", ":"))
        text = text.replace(f'"@{name}@"', kept)
    return text


@cache
def model_file(name: str) -> bytes:
    return packed(path_of(name))

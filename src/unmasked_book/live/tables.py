"""Makes Markdown of recorded runs: live engine and package, parts switched off, defects found."""

from __future__ import annotations

import re
from typing import Any

from unmasked_book.records import recorded

PARTS = {
    "": "nothing",
    "encoder_positions": "positions of the source",
    "decoder_positions": "positions of the target",
    "encoder_self": "self-attention of the encoder",
    "decoder_self": "self-attention of the decoder",
    "cross": "cross-attention",
    "feed_forward": "feed-forward networks",
    "residuals": "residual connections",
    "norms": "layer norms",
    "scale": "the division by √dₖ",
}
MODELS = ("de-en", "en-de", "random weights")


def ablations() -> str:
    """Returns a table with a row for each part of the model switched off: BLEU and an example."""
    run = recorded("ablations")
    rows = []
    for part, row in run["models"]["de-en"].items():
        same, text = f"{row['same when shuffled']} of 80", row["example"]
        short = text if len(text) <= 60 else f"{text[:60].rsplit(' ', 1)[0]} …"
        rows.append([PARTS[part], f"{row['bleu']:.1f}", same, short])
    head = "switched off", "BLEU", "unchanged when the source is shuffled"
    return table([*head, "“Eine Katze jagt eine Frau.”"], rows, run["machine"])


def equality() -> str:
    """Returns a table of what was compared between live engine and package, and what differed."""
    run = recorded("live-equality")
    grouped: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in run["rows"]:
        what = row["what"]
        if what.startswith("without"):
            what = f"with parts switched off, {what.split(': ')[1]}"
        grouped.setdefault(what, {}).setdefault(row["model"], []).append(row)
    rows = []
    for what, models in grouped.items():
        kind = next(iter(models.values()))
        counts = dict.fromkeys(f"{row[0]['cases']:,}" for row in models.values())
        cases = f"{len(kind)} × {kind[0]['cases']}" if len(kind) > 1 else " and ".join(counts)
        found = [difference(models[name]) if name in models else "–" for name in MODELS]
        rows.append([what, cases, *found, allowed(kind)])
    return table(["what may differ", "cases", *MODELS, "allowed"], rows, run["machine"])


def difference(rows: list[dict[str, Any]]) -> str:
    if "differ" in rows[0]:
        return str(sum(row["differ"] for row in rows) or "none")
    return f"{max(row['largest'] for row in rows):.0e}"


def allowed(rows: list[dict[str, Any]]) -> str:
    limits = [row["limit"] for row in rows]
    if "own" in rows[0]:
        return "as many as PyTorch’s own"
    if "differ" in rows[0]:
        return str(limits[0] or "none")
    if len(rows) == 1:
        return f"{limits[0]:.0e}"
    return f"{min(limits):.0e}, or 5 × PyTorch’s own"


def defects() -> str:
    """Returns a paragraph with code for each defect that `check` found in transformers' models."""
    parts = []
    for each in recorded("language-models")["judged"]:
        if each["verdict"] == "defect":
            known = re.split(r"[.,;\s]*\(?\b[Qq]uer(?:y|ies):", each["upstream"])[0]
            parts += [f"**{each['name']}** ({'; '.join(each['property']) or '–'}): {each['why']}",
                      "<details>", "<summary>The lines, reports, and code that shows it</summary>",
                      f"*Where:* {each['where']}", f"*Upstream:* {known}",
                      f"```python\n{each['code'].strip()}\n```",
                      f"```text\n{each['prints'].strip()}\n```", "</details>"]  # fmt: skip
    return "\n\n".join(parts)


def table(head: list[str], rows: list[list[str]], machine: dict[str, Any]) -> str:
    """Returns a Markdown table, and below it the machine, date and command of the measurement."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    browser = f", {machine['browser']}" if "browser" in machine else ""
    on = f"{machine['processor']}, one thread, PyTorch {machine['torch'].split('+')[0]}{browser}"
    return "\n".join([*lines, "", f"*{on}, {machine['date']}: `{machine['command']}`.*"])

"""The rules of `rules.md`, one by one, to be printed beside what they judge."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import fill

from unmasked.errors import check_choice

RULES = Path(__file__).with_name("rules.md").read_text("utf-8")
PARTS = dict(re.findall(r"^\*\*([a-z-]+)\.\*\* (.+)$", RULES, flags=re.MULTILINE))


def rule(name: str) -> str:
    """The claim and its rule, as they were written down before the runs."""
    check_choice("name", name, tuple(PARTS))
    _, claim, judged = PARTS[name].split("*", 2)
    return fill(f"Claim: {claim}", 90) + "\n" + fill(f"Rule: {judged.replace('*', '').strip()}", 90)


def section(title: str) -> str:
    """A part of the file, as Markdown: `For all claims`, `History`."""
    parts = dict(re.findall(r"^## (.+)\n\n([^#]+)", RULES, flags=re.MULTILINE))
    check_choice("title", title, tuple(parts))
    return parts[title].strip()

"""The rules of `rules.md`, one by one, to be shown beside what they judge."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

from unmasked.errors import check_choice

RULES = Path(__file__).with_name("rules.md").read_text("utf-8")
PARTS = dict(re.findall(r"^\*\*([a-z-]+)\.\*\* (.+)$", RULES, flags=re.MULTILINE))


class Rule(NamedTuple):
    """Shown as a quotation where Markdown is, and as lines elsewhere."""

    text: str  # Markdown: the claim in italics, and how it is judged

    def _repr_markdown_(self) -> str:
        return f"> **The rule.** {self.text}"

    def __repr__(self) -> str:
        return fill(f"The rule: {self.text.replace('*', '')}", 90)


def rule(name: str) -> Rule:
    """The claim and its rule, as they were written down before the runs."""
    check_choice("name", name, tuple(PARTS))
    return Rule(PARTS[name])


def section(title: str) -> str:
    """A part of the file, as Markdown: `For all claims`, `History`."""
    parts = dict(re.findall(r"^## (.+)\n\n([^#]+)", RULES, flags=re.MULTILINE))
    check_choice("title", title, tuple(parts))
    return parts[title].strip()

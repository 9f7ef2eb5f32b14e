"""Holds the findings of `check`, one for each property, and prints them as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Literal

from ..errors import require_choice

Verdict = Literal["passed", "fault", "note", "unclear", "not offered"]
MARKS: dict[Verdict, str] = {
    "passed": "ok", "fault": "FAULT", "note": "note", "unclear": "?", "not offered": "-",
}  # fmt: skip
WIDE = 92  # columns of a printed report
CLAIMS = {
    "runs": "every output is a row of numbers, one for each word",
    "repeats": "the same question gets the same answer",
    "causality": "no output knows a later word",
    "own words": "every output knows the words so far",
    "source": "every output knows every source word",
    "order": "words that change places change the output",
    "padding": "padding and neighbours change nothing",
    "gradient": "every parameter gets a gradient",
    "registered": "PyTorch knows every layer and every tensor",
    "tied": "what should be one matrix is one",
    "cached": "word by word gives the same output",
    "batch": "a sentence gets alone what it gets in company",
    "right padding": "padding behind changes nothing",
    "left padding": "padding before changes nothing",
    "cached, padded": "the cache gives the same behind padding",
    "chunked": "several words at a time give the same output",
    "reordered": "the cache's rows follow their sentences",
    "cropped": "words that are taken back leave no trace in the cache",
    "static": "a cache of fixed size gives the same output",
    "saved": "saved and loaded again, it is the same model",
    "generate": "generate's logits are those of forward",
    "like": "it computes what the reference computes",
}


@dataclass(frozen=True)
class Finding:
    """A finding says whether the model has a property, what was seen, and where to look if not."""

    property: str
    verdict: Verdict
    what: str
    advice: str = ""


@dataclass(frozen=True, repr=False)
class Report:
    """A report holds a finding for each property, in the order of `CLAIMS`. Print it to read it."""

    findings: tuple[Finding, ...]

    @property
    def faults(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.verdict == "fault")

    @property
    def ok(self) -> bool:
        """Returns True if no verdict is "fault"; "note" and "not offered" are none."""
        return not self.faults

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Returns a dictionary from each property's name to its verdict."""
        return {finding.property: finding.verdict for finding in self.findings}

    def __getitem__(self, name: str) -> Finding:
        require_choice("property", name, tuple(self.verdicts) or tuple(CLAIMS))
        return next(finding for finding in self.findings if finding.property == name)

    def summary(self) -> str:
        verdicts = [finding.verdict for finding in self.findings]
        counts = {verdict: verdicts.count(verdict) for verdict in MARKS}
        parts = [f"{counts.pop('passed')} passed"]
        for verdict, count in counts.items():
            plural = "s" if count > 1 and verdict in ("fault", "note") else ""
            parts += [f"{count} {verdict}{plural}"] * (count > 0)
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"Report({self.summary()})"

    def __str__(self) -> str:
        width = max(len(finding.property) for finding in self.findings)
        lines = []
        for finding in self.findings:
            name, asked = finding.property, finding.verdict not in ("not offered", "unclear")
            says = CLAIMS[name] if asked else finding.what
            lines.append(f"{MARKS[finding.verdict]:<5}  {name:<{width}}  {says}")
            if finding.verdict in ("fault", "note"):
                for text in (finding.what, finding.advice):
                    lines += wrap(text, WIDE, initial_indent=7 * " ", subsequent_indent=9 * " ")
        return "\n".join([*lines, self.summary()])


def listed(names: Sequence[str]) -> str:
    """Returns at most three of the names as one text, such as "a, b, c and 5 more"."""
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + rest

"""Reading what an experiment has measured: rows of options, each with a result a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..validation import invalid

Rows = Sequence[Mapping[str, Any]]


def row(rows: Rows, **where: Any) -> Mapping[str, Any]:
    """The one row with these options."""
    found = [each for each in rows if all(each[key] == value for key, value in where.items())]
    if len(found) != 1:
        fix = "name options that one row has"
        raise invalid("where", "one row", f"{len(found)} with {where}", fix)
    return found[0]


def trials(rows: Rows, measured: str, **where: Any) -> list[float]:
    """What was measured under this name, seed by seed, in the one row with these options."""
    return [trial[measured] for trial in row(rows, **where)["trials"]]


def options(rows: Rows, name: str) -> list[Any]:
    """The values of an option, in the order of the rows."""
    return list(dict.fromkeys(each[name] for each in rows))

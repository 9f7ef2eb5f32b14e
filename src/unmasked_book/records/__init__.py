"""Reads and writes JSON records of measurements; each names its machine, day and command."""

import json
import re
from pathlib import Path
from typing import Any

from unmasked.errors import require_choice

RECORDS = Path(__file__).parent


def recorded_names() -> list[str]:
    return sorted(path.stem for path in RECORDS.glob("*.json"))


def recorded(name: str) -> dict[str, Any]:
    """Returns a JSON record by its name, such as `cpu`; `["machine"]` says where, when and how."""
    require_choice("name", name, tuple(recorded_names()))
    found: dict[str, Any] = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def record(name: str, result: dict[str, Any]) -> Path:
    """Writes measurements as the JSON record of this name, over an older one; returns its path."""
    path = RECORDS / f"{name}.json"
    path.write_text(as_json(result), encoding="utf-8")
    return path


def as_json(result: dict[str, Any]) -> str:
    """Returns JSON text with a line for each field, and a list of numbers on one line."""
    text = json.dumps(result, indent=1, ensure_ascii=False)
    numbers = re.compile(r"\[\s+((?:[-\d.e+]+,?\s+)+)\]")
    return numbers.sub(lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"

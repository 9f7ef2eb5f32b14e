"""JavaScript modules → one classic script, which also runs from file:// and inside a notebook.

The modules are plain: they import names from each other (`import { a, b } from "./c.js";`) and put
`export` before what they give. All of them share one scope here, so no two may use the same name
at their top level. A stylesheet that is called like a module comes with it, in place of "@CSS@".
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
DEFINED = re.compile(r"^(?:export )?(?:async )?(?:function\*?|class|const|let) (\w+)", re.MULTILINE)


@cache
def bundle(*entries: str) -> str:
    """The modules such as "widgets/masks.js", and all that they import, each once and in order."""
    modules: dict[Path, str] = {}
    for entry in entries:
        collect((HERE / entry).resolve(), modules)
    owners: dict[str, Path] = {}
    for path, text in modules.items():
        for name in DEFINED.findall(text):
            if name in owners:
                raise ValueError(f"{name} is defined in {owners[name].name} and in {path.name}")
            owners[name] = path
    parts = [
        f"// {path.relative_to(HERE).as_posix()}\n{plain(text)}" for path, text in modules.items()
    ]
    sheets = [path.with_suffix(".css") for path in modules]
    css = "".join(sheet.read_text(encoding="utf-8") for sheet in sheets if sheet.exists())
    script = '(function () {\n"use strict";\n' + "\n".join(parts) + "})();\n"
    return script.replace('"@CSS@"', json.dumps(css))


def collect(path: Path, modules: dict[Path, str]) -> None:
    """What a module imports stands before it."""
    if path in modules:
        return
    text = path.read_text(encoding="utf-8")
    for _, other in IMPORT.findall(text):
        collect((path.parent / other).resolve(), modules)
    modules[path] = text


def plain(text: str) -> str:
    """A module as part of a script: no import, no export, no comment line, no indentation."""
    text = re.sub(r"^export ", "", IMPORT.sub("", text), flags=re.MULTILINE)
    return re.sub(r"^ *//.*\n|^ +|^\n", "", text, flags=re.MULTILINE).replace(
        "</script", "<\\/script"
    )

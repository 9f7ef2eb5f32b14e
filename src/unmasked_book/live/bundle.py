"""Joins JavaScript modules into one classic script, which also runs from file:// and in a notebook.

The modules are plain: they import names from each other (`import { a, b } from "./c.js";`) and put
`export` before what they give. All of them share one scope here, so no two may use the same name
at their top level. A stylesheet that is called like a module comes with it, in place of "@CSS@".
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
DEFINED = re.compile(r"^(?:export )?(?:async )?(?:function\*?|class|const|let) (\w+)", re.MULTILINE)


@cache
def bundle(entry: str) -> str:
    """Returns one script: a module, such as "widgets/masks.js", after all that it imports."""
    modules: dict[Path, str] = {}
    collect((HERE / entry).resolve(), modules)
    names = Counter(name for text in modules.values() for name in DEFINED.findall(text))
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ValueError(f"two modules of {entry} define {', '.join(twice)}")
    sheets = [path.with_suffix(".css") for path in modules]
    css = "".join(sheet.read_text(encoding="utf-8") for sheet in sheets if sheet.exists())
    parts = [f"// {path.name}\n{plain(text)}" for path, text in modules.items()]
    script = '(function () {\n"use strict";\n' + "\n".join(parts) + "})();\n"
    return script.replace('"@CSS@"', json.dumps(css))


def collect(path: Path, modules: dict[Path, str]) -> None:
    """Adds a module's text to `modules`, after those that it imports."""
    if path in modules:
        return
    text = path.read_text(encoding="utf-8")
    for _, other in IMPORT.findall(text):
        collect((path.parent / other).resolve(), modules)
    modules[path] = text


def plain(text: str) -> str:
    """Returns JavaScript without its imports, `export`, comment lines and indentation."""
    text = re.sub(r"^export ", "", IMPORT.sub("", text), flags=re.MULTILINE)
    return re.sub(r"^ *//.*\n|^ +|^\n", "", text, flags=re.MULTILINE).replace(
        "</script", "<\\/script"
    )

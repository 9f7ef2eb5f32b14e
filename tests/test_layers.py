"""Imports lead down: the floors stand in the first words of the package."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import unmasked

FLOORS = " ".join(re.findall(r"^    (\w[\w ]*)", unmasked.__doc__, re.M)).split()


def test_imports_lead_down():
    home, graph = Path(unmasked.__file__).parent, {}
    for path in home.rglob("*.py"):
        mine = path.relative_to(home).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level and mine != ("__init__",):
                assert mine != ("plain",), "plain.py imports nothing of ours"
                for name in [node.module] if node.module else [each.name for each in node.names]:
                    there = (*mine[: -node.level], *name.split("."))
                    graph.setdefault(mine, set()).add(there)
                    if name != "__version__" and there[0] != mine[0]:
                        below = FLOORS.index(there[0]) < FLOORS.index(mine[0])
                        assert below, f"{path} imports {there}"
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            assert not [name for name in names if name.startswith("unmasked")], path
    TopologicalSorter(graph).prepare()  # raises CycleError

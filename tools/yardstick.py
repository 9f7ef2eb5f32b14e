"""Draws forty changes of `src/unmasked`, and runs the tests against each: what a test breaks on.

    python tools/yardstick.py draw                  the changes that SEED draws
    python tools/yardstick.py run TREE COVERAGE     applies each in a copy of the tree, runs the tests that reach its line

COVERAGE is a `.coverage` written with `pytest --cov-context=test`. A change that no test of
its line notices is run again with every test of its part (there, some start processes).
"""

import ast
import json
import os
import random
import subprocess
import sys
from pathlib import Path

SEED = 20261126
CHANGES = 40
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.MatMult: ast.Mult,
}  # fmt: skip


def changed(node: ast.AST) -> ast.AST | None:
    """The node with one thing wrong, or None where there is nothing to change."""
    match node:
        case ast.Compare(left, [op], right) if type(op) in COMPARISONS:
            return ast.Compare(left, [COMPARISONS[type(op)]()], right)
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            return ast.BinOp(left, OPERATORS[type(op)](), right)
        case ast.BoolOp(op, values):
            return ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Constant(bool() as value):
            return ast.Constant(not value)
        case ast.Constant(int() as value):
            return ast.Constant(value + 1)
        case ast.Expr(ast.Call()):
            return ast.Pass()
        case ast.Return(value) if value is not None and not isinstance(value, ast.Constant):
            return ast.Return(ast.Constant(None))
    return None


def places(path: Path) -> list[tuple[str, int, int, int, int, str]]:
    """All nodes that can be changed: path, first and last place, and the new text."""
    found = []
    tree = ast.parse(path.read_text("utf-8"))
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if part is not None
        for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        new = changed(node) if id(node) not in annotations else None
        if new is not None and hasattr(node, "lineno"):
            text = ast.unparse(new)
            text = f"({text})" if isinstance(node, ast.expr) else text
            found.append(
                (
                    str(path),
                    node.lineno,
                    node.col_offset,
                    node.end_lineno,
                    node.end_col_offset,
                    text,
                )
            )
    return found


def draw() -> list[tuple[str, int, int, int, int, str]]:
    everything = [
        place for path in sorted(Path("src/unmasked").rglob("*.py")) for place in places(path)
    ]
    return random.Random(SEED).sample(everything, CHANGES)


def apply(place: tuple[str, int, int, int, int, str], tree: Path) -> str:
    path, line, column, end_line, end_column, new = place
    lines = (tree / path).read_bytes().splitlines(keepends=True)
    before = b"".join(lines[: line - 1]) + lines[line - 1][:column]
    after = lines[end_line - 1][end_column:] + b"".join(lines[end_line:])
    old = b"".join(lines)[len(before) : -len(after) or None].decode()
    (tree / path).write_bytes(before + new.encode() + after)
    return f"{path}:{line}: {' '.join(old.split())}  →  {new}"


def reaching(place, tree: Path, coverage: str) -> list[str]:
    from coverage import CoverageData

    data = CoverageData(coverage)
    data.read()
    contexts = data.contexts_by_lineno(str(tree / place[0]))
    lines = [name for line in range(place[1], place[3] + 1) for name in contexts.get(line, [])]
    return sorted({name.split("|")[0] for name in lines if "::" in name})


def broken(tests: list[str], tree: Path, name: str) -> str:
    """The first test that fails, or ''."""
    arguments = tree.parent / f"{name}.args"
    arguments.write_text("\n".join(tests))
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, "-n", "2", f"@{arguments}"], cwd=tree, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    if run.returncode == 0:
        return ""
    failures = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return (failures or [f"exit {run.returncode}: {(run.stdout + run.stderr)[-300:]}"])[0]


def main() -> None:
    if sys.argv[1] == "draw":
        for place in draw():
            print(*place)
        return
    tree, coverage = Path(sys.argv[2]).resolve(), sys.argv[3]
    chosen = [int(n) for n in sys.argv[4:]] or range(CHANGES)
    os.chdir(tree)
    places_drawn = json.loads(Path(tree.parent, "places.json").read_text())
    for number in chosen:
        place = places_drawn[number]
        tests = reaching(place, tree, coverage)
        original = (tree / place[0]).read_bytes()
        what = apply(place, tree)
        try:
            part = place[0].split("/")[2].removesuffix(".py")
            rest = [
                str(path)
                for path in (tree / "tests").rglob("*")
                if path.name in (part, f"test_{part}.py")
            ]
            first = broken(tests, tree, f"n{number}") if tests else ""
            first = first or broken(
                [*rest, "tests/unmasked/cli", "tests/test_layers.py"], tree, f"n{number}"
            )
        finally:
            (tree / place[0]).write_bytes(original)
        print(f"{number:2} {len(tests):5} tests | {what} | {first or 'SURVIVES'}", flush=True)


if __name__ == "__main__":
    main()

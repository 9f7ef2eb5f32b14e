"""What the benchmarks found: as a table in Markdown and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot as plt

Result = dict[str, Any]


def machine_line(machine: Result) -> str:
    peers = ("torch", "transformers", "x-transformers", "ctranslate2")
    versions = ", ".join(f"{name} {machine[name]}" for name in peers if name in machine)
    where = f"{machine['date']} · {machine['processor']}, {machine['threads']} threads"
    return f"{where} · {versions} · `{machine['command']}`"


def table(result: Result) -> str:
    """Each work with its contestants; the ratio is theirs to ours within one round."""
    lines = [machine_line(result["machine"]), ""]
    lines += ["| work | contestant | median | quartiles |", "|---|---|--:|--:|"]
    for work in result["works"]:
        title = work["title"]
        for name, times in work["times"].items():
            low, high = times["quartiles"]
            lines.append(
                f"| {title} | {name} | {seconds(times['median'])} "
                f"| {seconds(low)} – {seconds(high)} |"
            )
            title = ""
    lines += ["", "| work | faster | than | goal | measured | |", "|---|---|---|--:|--:|---|"]
    for work in result["works"]:
        lines += [
            f"| {work['title']} | {goal['ours']} | {goal['theirs']} | {goal['goal']:g} × "
            f"| {goal['measured']:.2f} × | {reached(goal['measured'] >= goal['goal'])} |"
            for goal in work["goals"]
        ]
    if "scaling" in result:
        lines += scaling_lines(result["scaling"])
    return "\n".join(lines)


def scaling_lines(scaling: Result) -> list[str]:
    speed, memory = scaling["speed_ratio"], scaling["memory_ratio"]
    work = f"encoder forward, n={scaling['compared']}, a tenth padding"
    bare = scaling["speed_ratio_without_mask"]
    lines = [
        f"| {work} | fused | explicit | 2 × | {speed:.2f} × | {reached(speed >= 2)} |",
        f"| the same without a mask | fused | explicit | – | {bare:.2f} × | |",
        f"| {work}: memory | fused | explicit | ≤ 0.25 × | {memory:.2f} × "
        f"| {reached(memory <= 0.25)} |",
        "",
        "| attention, n | " + " | ".join(map(str, scaling["lengths"])) + " | grows like |",
        "|---|" + "--:|" * (len(scaling["lengths"]) + 1),
    ]
    for what, unit in (("seconds", seconds), ("mebibytes", mebibytes)):
        for name, values in scaling[what].items():
            power = scaling["exponents"][f"{name}, {what}"]
            cells = " | ".join(unit(value) for value in values)
            lines.append(f"| {name} | {cells} | n^{power:.2f} |")
    return lines


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.1f} ms"


def mebibytes(value: float) -> str:
    return f"{value:.0f} MiB"


def reached(yes: bool) -> str:
    return "reached" if yes else "missed"


def plot(result: Result, path: Path) -> None:
    """Medians of every contestant, as multiples of the fastest version of ours."""
    works = result["works"]
    bars = sum(len(work["times"]) + 1 for work in works)
    figure, axes = plt.subplots(figsize=(9, 0.26 * bars + 0.9), layout="constrained")
    position, ticks, labels = 0, [], []
    for work in works:
        ours = min(t["median"] for name, t in work["times"].items() if name.startswith("unmasked"))
        axes.text(0, position, work["title"], weight="bold", va="center", fontsize=8)
        position += 1
        for name, times in work["times"].items():
            low, high = (value / ours for value in times["quartiles"])
            length = times["median"] / ours
            colour = "#0b6e99" if name.startswith("unmasked") else "#b0b7bd"
            axes.barh(position, length, color=colour, height=0.8)
            axes.plot([low, high], [position, position], color="black", linewidth=1)
            note = f"{length:.2f} ×  {seconds(times['median'])}"
            axes.text(max(length, high) + 0.05, position, note, va="center", fontsize=7)
            ticks.append(position)
            labels.append(name)
            position += 1
    axes.set_yticks(ticks, labels, fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.15, y=0.01)
    axes.set_xlabel("time, as a multiple of ours (line: quartiles)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)

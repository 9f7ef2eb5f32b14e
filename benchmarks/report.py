"""What `run.py` found, as tables in Markdown."""

from typing import Any

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
    return "\n".join(lines)


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.1f} ms"


def reached(yes: bool) -> str:
    return "reached" if yes else "missed"

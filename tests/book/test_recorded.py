"""Numbers in the prose that come from recorded runs are the recorded ones."""

import json

from pages import ROOT, prose


def test_the_table_of_chapter_3_is_that_of_the_recorded_run():
    scaling = json.loads((ROOT / "benchmarks/results/cpu.json").read_text())["scaling"]
    text = prose("03_attention")
    assert f"| words $n$ | {' | '.join(map(str, scaling['lengths']))} |" in text
    for kind in ("explicit", "fused"):
        for unit, title, digits in (("seconds", "seconds", 3), ("mebibytes", "MiB", 0)):
            cells = " | ".join(f"{value:.{digits}f}" for value in scaling[unit][kind])
            exponent = scaling["exponents"][f"{kind}, {unit}"]
            assert f"| {kind}, {title} | {cells} | $n^{{{exponent:.1f}}}$ |" in text

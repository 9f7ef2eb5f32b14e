"""Plants known mistakes in a copy of plain.py for a reader to find, and prints their symptoms."""

import contextlib
import random
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

import unmasked
from unmasked import plain
from unmasked.errors import invalid, require_whole
from unmasked.text.sources import phrasebook_data
from unmasked_book.workshop.limits import one_thread, within
from unmasked_book.workshop.mistakes import Mistake, known
from unmasked_book.workshop.practice import practise, translated
from unmasked_book.workshop.reference import STEPS, module, whole
from unmasked_book.workshop.wording import examine

HEAD = "# A hunt: seed {}, bugs {}. Mend it, then: unmasked workshop try FILE, or attempt(FILE)\n"
STEPS_SHOWN = (1, 10, 20, 40, 80)
PLANTED = ("pass", "nn.functional", " 0 *")  # nobody else would write this there
phrases = cache(phrasebook_data)
Symptoms = tuple[list[str], dict[str, str], list[float]]  # faults, translations, losses


def hunt(seed: int = 1, bugs: int = 1, file: str | Path = "hunted.py") -> None:
    """Writes plain.py with `bugs` mistakes planted in it into a new file, and prints symptoms."""
    require_whole("seed", seed, 1)
    require_whole("bugs", bugs, 1, 2)
    path, head = Path(file), HEAD.format(seed, bugs)
    if path.exists():
        raise invalid("file", "a name that is free", str(path), "delete it, or name another")
    mistakes, shown = planted(seed, bugs)
    path.write_text(head + whole([(each.step, each.changes) for each in mistakes]), "utf-8")
    print(f"{path} is a Transformer with {'a mistake' if bugs == 1 else 'two mistakes'} in it.")
    tell(shown)
    print(f'Mend it, then: unmasked workshop try {path}, or attempt("{path}").')


def tell(shown: Symptoms) -> None:
    faults, texts, losses = shown
    print("unmasked.check: " + ("; ".join(faults) or "finds nothing wrong") + ".")
    print("With trained weights it translates:")
    for german, english in texts.items():
        right = healthy()[1][german]
        print(f"  {german} → {english}" + f"\n    a healthy one: {right}" * (english != right))
    print("Its loss on the phrasebook, and a healthy one's:")
    for step, mine, ours in zip(STEPS_SHOWN, losses, healthy()[2], strict=True):
        print(f"  step {step:2}: {mine:5.2f} {ours:5.2f}")


def learning(mine: Mapping[str, Any]) -> None:
    """Trains plain.py with a reader's pieces in it for some seconds, and draws the loss."""
    made = vars(module(whole([])))
    made.update(mine)
    print(f"With your {', '.join(mine)}, and ours for the rest, the loss on a toy language (ours):")
    try:
        with within(60.0):
            losses = trained(made)
    except (Exception, SystemExit) as error:  # the reader's code may raise anything
        print(f"  it stops with {type(error).__name__}: {error}")
        return
    for step, loss, ours in zip(STEPS_SHOWN, losses, ordinary(), strict=True):
        bar = "█" * round(6 * loss) if 0 < loss < 20 else ""  # a lost training may end in NaN
        print(f"  step {step:2}: {bar:36} {loss:.1f} ({ours:.1f})")


@cache
def planted(seed: int, bugs: int) -> tuple[list[Mistake], Symptoms]:
    """Returns mistakes that raise no error, others for each seed, and the symptoms they show."""
    pool = [each for step in STEPS for each in known(step)
            if not any(word in new for _, new in each.changes for word in PLANTED)]  # fmt: skip
    random.Random(0).shuffle(pool)
    tried = 0
    while True:
        first = (seed - 1 + tried * (len(pool) // 2) + tried // 2) % len(pool)
        second = next(x for x in pool[first:] + pool if x.step != pool[first].step)
        mistakes, tried = [pool[first], second][:bugs], tried + 1
        try:
            shown = symptoms(vars(module(whole([(each.step, each.changes) for each in mistakes]))))
        except Exception:  # a shape that does not fit is no riddle
            continue
        if shown != healthy():
            return mistakes, shown


def symptoms(mine: Mapping[str, Any]) -> Symptoms:
    """Returns the faults unmasked.check finds, translations with trained weights, and losses."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = mine["Transformer"](12, 14, 32, 4, 2, 64)
        report = unmasked.check(model, source_vocab=12, target_vocab=14, quiet=True)
        faults = [fault.what for fault in report.faults]
        return faults, translated(mine), trained(mine)


def trained(mine: Mapping[str, Any]) -> list[float]:
    """Returns the losses of a short training on the phrasebook, at STEPS_SHOWN."""
    data = phrases(2000)
    with one_thread(), torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = mine["Transformer"](len(data.source), len(data.target), 32, 4, 1, 64, 0.0)
        losses = practise(mine, model, data, STEPS_SHOWN[-1], quiet=True)
    return [round(losses[step - 1], 2) for step in STEPS_SHOWN]


healthy = cache(lambda: symptoms(vars(plain)))
ordinary = cache(lambda: trained(vars(plain)))


def seed_of(path: Path) -> tuple[int, int] | None:
    """Returns the seed and number of mistakes in a file that `hunt` wrote; None for other files."""
    head = HEAD.split(".")[0].format(r"(\d+)", r"(\d)")
    with contextlib.suppress(OSError, ValueError):
        if found := re.match(head, path.read_text("utf-8-sig")):
            return int(found[1]), int(found[2])
    return None


def found(mine: Mapping[str, Any], seed: int, bugs: int) -> bool:
    """Returns True, and prints what was planted, if the reader's code is right; else symptoms."""
    if not all(examine(step, mine.get(step)).right for step in STEPS):
        print("Not yet: its numbers are not right.")
        with contextlib.suppress(Exception):  # it may not even run
            tell(symptoms(mine))
        return False
    for mistake in planted(seed, bugs)[0]:
        print(f"✓ Found. It was in {mistake.step}: {mistake.words}.")
    return True

"""Defines what a reader calls, in a notebook or in a shell: attempt, hint, solution, finish."""

import contextlib
import io
import time
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import torch

import unmasked
from unmasked.errors import invalid, require_choice, require_whole
from unmasked.text.sources import phrasebook_data, phrasebook_test
from unmasked_book.workshop import hunting
from unmasked_book.workshop.files import Pieces, UnreadableError, collected, named
from unmasked_book.workshop.judging import unwritten
from unmasked_book.workshop.limits import one_thread, within
from unmasked_book.workshop.practice import practise, translated
from unmasked_book.workshop.reference import STEPS, defined, text
from unmasked_book.workshop.wording import REPORT, Verdict, examine, place

BOOK = "https://transformer-unmasked.github.io/unmasked/book/"


@cache
def steps() -> dict[str, dict[str, Any]]:
    """Returns, from steps.toml, chapter, minutes and hints of each function and class to write."""
    return tomllib.loads(Path(__file__).with_name("steps.toml").read_text("utf-8"))


def attempt(pieces: Pieces, step: str | None = None, *, train: bool = False) -> None:
    """Compares the reader's functions and classes with plain.py's, and prints the first mistake.

    `pieces` is `globals()` in a notebook, or the path of a file. With `train`, what is there so far
    learns a toy language for some seconds, with ours for what is missing.
    """
    looked(pieces, step, train)


def looked(pieces: Pieces, step: str | None = None, train: bool = False) -> bool:
    """Prints the first mistake in `pieces`, unwritten ones aside; returns True if all are right."""
    shell = isinstance(pieces, str | Path)
    try:
        if shell and (seed := hunting.seed_of(Path(pieces))):
            return hunting.found(named(pieces), *seed)
        mine = named(pieces)
    except UnreadableError as error:
        print(f"✗ {error}.")
        return False
    if step is not None:
        require_choice("step", step, STEPS)
    verdicts: list[Verdict] = []
    for name in [step] if step else STEPS:
        verdicts.append(examine(name, mine.get(name)))
        if not (verdicts[-1].right or verdicts[-1].waiting):
            break
    right = [verdict for verdict in verdicts if verdict.right]
    if step is None:
        marks = "".join("✓" if each.right else "·" if each.waiting else "✗" for each in verdicts)
        names = ", ".join(each.step for each in right) or "none yet"
        print(f"{marks:·<{len(STEPS)}}  {len(right)} of {len(STEPS)}: {names}")
    if train and (written := begun(mine)):
        hunting.learning({each: mine[each] for each in STEPS if each in written})
    if len(right) == len(STEPS):
        return whole(mine, shell)
    wrong = [verdict for verdict in verdicts if not verdict.right]
    for last in [verdict for verdict in wrong if not verdict.waiting] or wrong[:1]:
        said, report, address = last.message.partition(REPORT)
        print(said)
        if "it stops with" in said and (missing := [x.step for x in verdicts if x.waiting]):
            print(f"  Not written yet: {', '.join(missing)}. Is that why?")
        if last.waiting:
            others = [name for name in mine if name not in STEPS]
            if last.step not in mine and (near := get_close_matches(last.step, others, 1, 0.8)):
                print(f"  There is no {last.step}. Did you mean your {near[0]}?")
            about = steps()[last.step]
            print(f"  About {about['minutes']} minutes. Its chapter: {BOOK}{about['chapter']}.html")
            if right and step is None:
                ours = call(shell, "solution", right[-1].step, ", globals()")
                print(f"  Ours beside yours, where yours is right: {ours}")
        print(f"  A hint: {call(shell, 'hint', last.step)}")
        if report:
            print(f"  If you think that it is right, tell us: {report}{address}")
    if step and right:
        print(right[0].message)
    return not wrong


def call(shell: bool, action: str, step: str, more: str = "") -> str:
    """Returns how to call an action, such as hint: a shell command, or Python for a notebook."""
    return f"unmasked workshop {action} {step}" if shell else f'{action}("{step}"{more})'


def whole(mine: Mapping[str, Any], shell: bool) -> bool:
    """Prints the finished Transformer's translations and faults; returns True if it has none."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), within(60.0):
            texts = translated(mine)
            torch.manual_seed(0)
            fresh = mine["Transformer"](12, 14, 32, 4, 2, 64)
            report = unmasked.check(fresh, source_vocab=12, target_vocab=14, quiet=True)
    except (Exception, SystemExit) as error:
        print("✗ Each piece gives the right numbers, but together, on captions, they stop with")
        print(f"  {type(error).__name__}: {error}{place(error)}.")
        return False
    if report.faults:
        print(
            "✗ Each piece gives the right numbers, but unmasked.check finds a fault in the whole:"
        )
        for fault in report.faults:
            print(f"  {fault.what}; {fault.advice}.")
        return False
    print(
        "All eleven are right, and unmasked.check finds no fault. With the weights of de-en, which"
    )
    print("comes with this book and was trained on image captions, your Transformer translates:")
    for german, english in texts.items():
        print(f"  {german} → {english}")
    ours = "unmasked workshop finish" if shell else "finish(globals())"
    print(f"Now train it on a toy language, which takes about a minute: {ours}")
    return True


def hint(step: str, number: int = 1, *, shell: bool = False) -> None:
    """Prints hint 1, 2 or 3 for writing `step`: a question, the place, or a line with a gap."""
    require_choice("step", step, STEPS)
    require_whole("number", number, 1, 3)
    print(f"{step}, hint {number} of 3: {steps()[step]['hints'][number - 1]}")
    if number < 3:
        more = f" {number + 1}" if shell else ""
        print(f"The next: {call(shell, 'hint', step, f', {number + 1}')}{more}")


def solution(step: str, pieces: Pieces = None) -> None:
    """Prints plain.py's function or class `step`, after the reader's own if `pieces` are given."""
    require_choice("step", step, STEPS)
    if pieces is not None and (mine := defined(collected(named(pieces)), step)):
        print(f"# yours\n{mine}\n\n# ours")
    print(text(step).split("\n\n    @classmethod")[0])


def save(pieces: Pieces, file: str | Path = "my_transformer.py") -> None:
    """Writes a notebook's functions and classes into a file, and keeps an older one as FILE.old."""
    path, mine = Path(file), named(pieces)
    source, now = collected(mine), begun(mine)
    if path.exists() and path.read_text("utf-8") != source:
        with contextlib.suppress(UnreadableError):
            if lost := begun(named(path)) - now:
                what = f"the {', '.join(sorted(lost))} that {path} has"
                fix = "run those cells first, or name another file"
                raise invalid("pieces", what, "less", fix)
        names = (path.with_name(f"{path.name}.old{n or ''}") for n in count())
        path.replace(next(name for name in names if not name.exists()))
    path.write_text(source, "utf-8")
    print(f"{path}: {len(now)} of {len(STEPS)} pieces.")


def begun(mine: Mapping[str, Any]) -> set[str]:
    """Returns the names of the functions and classes that are more than empty stubs."""
    return {step for step in STEPS if not unwritten(mine.get(step))}


def finish(
    pieces: Pieces, steps: int = 900, file: str | Path = "my_transformer.pt"
) -> Callable[[str], str] | None:
    """Trains the reader's model on the phrasebook, and saves its weights.

    Returns a function that translates a sentence, or None if a piece is wrong.
    """
    mine = named(pieces)
    for step in STEPS:
        if not (verdict := examine(step, mine.get(step))).right:
            print(f"{verdict.message.partition(REPORT)[0]}\nFirst all eleven have to be right.")
            return None
    data = phrasebook_data()
    with one_thread():
        torch.manual_seed(0)
        sizes = (64, 4, 2, 256, 0.0)  # d_model, n_heads, n_layers, d_ff, dropout
        model = mine["Transformer"](len(data.source), len(data.target), *sizes)
        losses = practise(mine, model, data, steps)
    torch.save(model.eval().state_dict(), file)

    def translate(*texts: str) -> list[str]:
        source, _ = data._replace(training=[(text, "") for text in texts]).corpus().batch()
        with one_thread():
            rows = mine["generate"](model, source, 30).tolist()
        return [data.target.decode(row) for row in rows]

    tests = phrasebook_test(300)
    written = translate(*(each.german for each in tests))
    right = sum(text == each.english for text, each in zip(written, tests, strict=True))
    print(f"The loss fell from {losses[0]:.2f} to {losses[-1]:.2f} in {steps} steps.")
    more = " (after 900 steps about 280)" if steps < 900 else ""
    unseen = f"{len(tests)} sentences with combinations it has never seen"
    print(f"Of {unseen}, {right} are right{more}:")
    for english, each in zip(written[:4], tests, strict=False):
        print(f"  {each.german} → {english}")
    print(f"{file}: its weights.")
    return lambda text: translate(text)[0]


def converse(translate: Callable[[str], str]) -> None:
    """Translates what is typed, until an empty line."""
    print("Type a German sentence of this small language, or press Enter to end.")
    with contextlib.suppress(EOFError):
        while text := input("> ").strip():
            try:
                print(f"  {translate(text)}")
            except ValueError as error:  # a word that it does not know
                print(f"  {error}")


def watched(file: Path, step: str | None, train: bool = False) -> None:
    """Looks at a file whenever it has changed, until Ctrl-C."""
    before = None
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            if (now := file.stat().st_mtime_ns if file.exists() else 0) != before:
                print(
                    f"\n{file}, {time.strftime('%H:%M:%S')}; again when you save it (Ctrl-C ends)"
                )
                looked(file, step, train)
                before = now
            time.sleep(0.3)

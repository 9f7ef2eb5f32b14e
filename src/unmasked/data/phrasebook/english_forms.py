"""The endings of English verbs, and its articles."""

from __future__ import annotations

BE = {(1, False): "am", (3, False): "is"}


def third(verb: str) -> str:
    """What he, she or it does: the ending goes to the first word of `look for`."""
    first, *rest = verb.split()
    if first == "have":
        first = "ha"
    ending = "es" if first.endswith(("s", "sh", "ch", "x", "o")) else "s"
    return " ".join([first + ending, *rest])


def present(verb: str, person: int, plural: bool) -> str:
    if verb == "be":
        return BE.get((person, plural), "are")
    return third(verb) if person == 3 and not plural else verb


def indefinite(next_word: str) -> str:
    return "an" if next_word[0] in "aeiou" else "a"

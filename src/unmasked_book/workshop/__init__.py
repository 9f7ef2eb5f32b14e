"""The workshop: write the eleven pieces of plain.py, and be told which mistake it is."""

from unmasked_book.workshop.hunting import hunt
from unmasked_book.workshop.verdicts import Verdict, examine
from unmasked_book.workshop.work import attempt, finish, hint, save, solution

__all__ = ["Verdict", "attempt", "examine", "finish", "hint", "hunt", "save", "solution"]

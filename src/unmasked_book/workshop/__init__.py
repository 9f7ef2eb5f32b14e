"""Tells a reader who writes the eleven pieces of plain.py which mistake was made."""

from unmasked_book.workshop.hunting import hunt
from unmasked_book.workshop.wording import Verdict, examine
from unmasked_book.workshop.work import attempt, finish, hint, save, solution

__all__ = ["Verdict", "attempt", "examine", "finish", "hint", "hunt", "save", "solution"]

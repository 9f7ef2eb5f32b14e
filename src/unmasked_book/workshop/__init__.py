"""Tells readers who write plain.py's eleven functions and classes anew which mistake they made."""

from unmasked_book.workshop.hunting import hunt
from unmasked_book.workshop.wording import Verdict, examine
from unmasked_book.workshop.work import attempt, finish, hint, save, solution

__all__ = ["Verdict", "attempt", "examine", "finish", "hint", "hunt", "save", "solution"]

"""Judges answers to chapter 3's first exercise; the others are steps of the workshop."""

from unmasked_book.exercises.compare import number

# The standard deviation of a product of 64 numbers of variance 9 with 64 of variance 1.
CHECKS = {"1": number(24.0)}

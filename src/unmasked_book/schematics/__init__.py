"""Schematics of the book: each a function that returns a drawing."""

"""The three tokens that every vocabulary of this package begins with."""

PADDING = 0  # fills the short rows of a batch
BOS = 1  # begins a target sentence
EOS = 2  # ends it

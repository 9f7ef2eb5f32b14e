"""Holds `unmasked.check`, property tests for any encoder-decoder, and its parts."""

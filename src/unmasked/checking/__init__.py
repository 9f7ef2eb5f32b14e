"""Holds `unmasked.check`, which tests any encoder-decoder for its properties, and its helpers."""

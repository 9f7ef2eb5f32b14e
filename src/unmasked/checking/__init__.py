"""`unmasked.check`: property tests for any encoder-decoder, and what they stand on."""

"""The same numbers, sooner: what `guard.is_plain` allows, and everything else goes without."""

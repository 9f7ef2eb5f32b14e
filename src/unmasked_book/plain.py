from unmasked.plain import *  # noqa: F403  (its old path)

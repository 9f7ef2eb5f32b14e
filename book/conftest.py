"""A plain `pytest --nbval book` compares what is stored: without bars, with a list of fonts at hand."""

import os

import matplotlib.font_manager  # noqa: F401  (made once, here: a kernel would tell of making it)

os.environ["TQDM_DISABLE"] = "1"

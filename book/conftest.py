"""Makes a plain `pytest --nbval book` possible: no bars, and a list of fonts is at hand."""

import os

import matplotlib.font_manager  # noqa: F401  (made once, here: a kernel would tell of making it)

os.environ["TQDM_DISABLE"] = "1"

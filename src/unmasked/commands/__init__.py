"""What `python -m unmasked` can do, a file for each."""

from . import evaluate, info, train, translate

COMMANDS = {"train": train, "translate": translate, "evaluate": evaluate, "info": info}

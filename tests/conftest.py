import os

import pytest
from hypothesis import settings

os.environ["OMP_NUM_THREADS"] = "1"  # the tests run side by side; what they start, too
settings.register_profile("unmasked", deadline=None, derandomize=True, max_examples=20)
settings.load_profile("unmasked")


@pytest.fixture(autouse=True)
def _repeatable() -> None:
    """Gives each test the same random numbers, and one thread whatever the last one set.

    The process that hands the tests to others needs no PyTorch, which takes seconds to import.
    """
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)

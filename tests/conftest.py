import pytest
import torch
from hypothesis import settings

settings.register_profile("unmasked", deadline=None, derandomize=True, max_examples=20)
settings.load_profile("unmasked")
torch.set_num_threads(1)  # the tests run side by side; also what is made once for a whole file


@pytest.fixture(autouse=True)
def _repeatable() -> None:
    """The same random numbers for each test alone, and one thread whatever the last one set."""
    torch.manual_seed(0)
    torch.set_num_threads(1)

"""Where to compute: the accelerator where there is one, the processor elsewhere."""

import torch


def device() -> torch.device:
    """The GPU (or another accelerator that PyTorch can use), or else the CPU."""
    found = torch.accelerator.is_available() and torch.accelerator.current_accelerator()
    return found or torch.device("cpu")

"""Finds the device to compute on, and describes the machine that a measurement was made on."""

import datetime
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


def device() -> torch.device:
    """Returns the GPU (or another accelerator that PyTorch can use), or else the CPU."""
    accelerator = torch.accelerator.is_available() and torch.accelerator.current_accelerator()
    return accelerator or torch.device("cpu")


CPUINFO = Path("/proc/cpuinfo")  # Linux only


def machine(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Returns a dictionary of a device's processor, threads and versions, and today's date."""
    lines = CPUINFO.read_text().splitlines() if CPUINFO.exists() else []
    cores = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    processor = cores[0] if cores else platform.processor()
    if torch.device(device).type == "cuda":
        processor = torch.cuda.get_device_name(device)
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": processor,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "cores": len(cores) or None,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": version("numpy"),
    }

"""What the numbers of a benchmark depend on."""

from __future__ import annotations

import datetime
import platform

import torch
import triton

from grader.device import driver_version


def environment() -> dict[str, str]:
    """Date, GPU, driver and versions."""
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none",
        "driver": driver_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
    }

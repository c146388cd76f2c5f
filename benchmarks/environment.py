"""What the numbers of a benchmark depend on."""

from __future__ import annotations

import datetime
import json
import platform
from pathlib import Path
from typing import Any

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


def report_in(file: Path | None, parts: dict[str, Any]) -> dict[str, Any]:
    """What a run that was broken off has left in its file, or a new report with these empty parts."""
    if file is not None and file.is_file():
        left: dict[str, Any] = json.loads(file.read_text())
        return left
    return {"environment": environment(), **parts}

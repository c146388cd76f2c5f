"""Trusted side: the judge's own view of the GPU: memory shared with a worker, and whether the device is there and well.

Imported only where a GPU is used. Needs the extra `gpu`.
"""

from __future__ import annotations

import os

import numpy as np
import torch

from .device_memory import DeviceMemory, DeviceMemoryError
from .errors import InfrastructureError


class GpuMemory:
    """Device memory for an arena."""

    def __init__(self, size: int) -> None:
        torch.zeros(1, device="cuda")  # makes this process's context current
        try:
            self._memory, self.fd = DeviceMemory.create(size, torch.cuda.current_device())
        except DeviceMemoryError as error:
            raise InfrastructureError(f"{size} bytes of device memory could not be shared: {error}") from None
        self.size = self._memory.size
        self.tensor: torch.Tensor = self._memory.tensor()

    def write(self, data: bytes) -> None:
        """Put `data` at the start."""
        # A copy of its own: torch warns of tensors over bytes, which can't be written.
        self.tensor[: len(data)].copy_(torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy()))
        torch.cuda.synchronize()

    def read(self, size: int) -> bytes:
        """A copy of the first `size` bytes."""
        return self.tensor[:size].cpu().numpy().tobytes()

    def close(self) -> None:
        """Unmap it."""
        torch.cuda.synchronize()
        del self.tensor
        self._memory.close()
        os.close(self.fd)


def check_health() -> None:
    """Make sure that the device still computes, after a worker crashed on it. Raises InfrastructureError."""
    try:
        total = int(torch.arange(1 << 20, device="cuda", dtype=torch.int64).sum())
    except RuntimeError as error:
        raise InfrastructureError(f"the GPU does not answer after a worker crashed: {error}") from None
    if total != (1 << 20) * ((1 << 20) - 1) // 2:
        raise InfrastructureError("the GPU computes wrong sums after a worker crashed")

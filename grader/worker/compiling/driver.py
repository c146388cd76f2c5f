"""A driver for a GPU that isn't there, as far as compiling and a submission's host code ask it anything.

Untrusted side, in a compiling child.
"""

from __future__ import annotations

import torch
from triton.backends.compiler import GPUTarget

from grader.worker.compiling import resources


class StubDriver:
    """A driver for a GPU that isn't there. The device number is the capability, since Triton's caches go by device.

    Without `multiprocessors` it has those of a common GPU of its capability.
    """

    def __init__(self, target: int, multiprocessors: int | None = None) -> None:
        self._target = target
        self._multiprocessors = multiprocessors
        self.utils = self  # Triton keeps these functions on an object of their own

    def get_current_target(self) -> GPUTarget:
        """What to compile for."""
        return GPUTarget("cuda", self._target, 32)

    def get_current_device(self) -> int:
        """The key of Triton's caches."""
        return self._target

    def set_current_device(self, device: int) -> None:
        """There is one device."""

    def get_current_stream(self, device: int) -> int:  # noqa: ARG002 - Triton's signature
        """The default stream."""
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Where the tensors of the call are."""
        return torch.device("cpu")

    def get_device_properties(self, device: int) -> dict[str, int]:  # noqa: ARG002 - Triton's signature
        """What a kernel that sizes its grid by the chip asks for."""
        properties = resources.device_properties(self._target)
        if self._multiprocessors is not None:
            properties["multiprocessor_count"] = self._multiprocessors
        return properties

"""What `triton.runtime.driver.active` says where kernels run on a CPU (untrusted worker side).

Triton's tutorials ask it for the device while the file is imported: `driver.active.get_active_torch_device()`.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from triton.runtime import driver


class HostDriver:
    """Knows the device of the tensors. Whatever else is asked fails as it does in Triton without a GPU."""

    def get_active_torch_device(self) -> torch.device:
        """Where the tensors of a call are."""
        return torch.device("cpu")

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(f"0 active drivers ([]), none to ask for {name}: kernels run on the CPU here.")


def install() -> None:
    """Answer in the place of a GPU's driver, also where there is one: its context would not survive a fork."""
    stand_in: Any = HostDriver()
    driver.set_active(stand_in)

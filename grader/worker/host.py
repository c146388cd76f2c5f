"""Untrusted side: calls on CPU tensors, through Triton's mended interpreter."""

from __future__ import annotations

import mmap
import os
from contextlib import AbstractContextManager
from typing import Any

import torch

# Before the interpreter mends Triton: compiling remembers Triton as it is now.
from grader.worker import compiling, interpreter

DEVICE = "cpu"


def prepare() -> None:
    """Mend the interpreter and have everything imported, once, before any fork."""
    interpreter.install()
    compiling.prepare()
    from grader.worker.warmup import warm_up

    warm_up()


def attach(fd: int, size: int) -> torch.Tensor:
    """The arena behind a descriptor as a uint8 tensor."""
    mapped = mmap.mmap(fd, size)
    os.close(fd)
    return torch.frombuffer(mapped, dtype=torch.uint8)


def record(options: dict[str, Any]) -> AbstractContextManager[Any]:
    """Record one call: launches, bytes moved, accesses out of bounds."""
    return interpreter.record(interpreter.Options(**options))


def stored_elements(tensor: torch.Tensor) -> int | None:
    """How many elements of a tensor the recorded kernels stored to; None where that is not known."""
    return interpreter.stored_elements(tensor)


def synchronize() -> None:
    """Nothing runs behind the call's back here."""

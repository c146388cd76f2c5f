"""Trusted side: a lock per GPU, for all graders of a machine: who times holds it alone, the others share it."""

from __future__ import annotations

import contextlib
import fcntl
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from .errors import InfrastructureError

TIMEOUT_S = 1800.0


@contextlib.contextmanager
def held(gpu: str, *, alone: bool, timeout_s: float = TIMEOUT_S) -> Iterator[None]:
    """Hold the GPU with this UUID. Raises InfrastructureError where it can't be had in time.

    Who wants it alone passes a gate first and so is not kept waiting by those who come later to share.
    """
    deadline = time.monotonic() + timeout_s
    mode = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    with contextlib.ExitStack() as stack:
        gate, lock = (stack.enter_context(_open(f"{gpu}{suffix}")) for suffix in ("-gate", ""))
        _acquire(gate, mode, deadline)
        _acquire(lock, mode, deadline)
        if not alone:
            fcntl.flock(gate, fcntl.LOCK_UN)
        yield


def _open(name: str) -> IO[str]:
    path = Path(tempfile.gettempdir()) / f"kernel-grader-{name}.lock"
    file = path.open("a")
    with contextlib.suppress(OSError):
        path.chmod(0o666)
    return file


def _acquire(file: IO[str], mode: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(file, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise InfrastructureError(f"{file.name} is held: another grader has timed for too long") from None
            time.sleep(0.02)
        else:
            return

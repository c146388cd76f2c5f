"""Trusted side: the judge's end of the pipe by which `grader batch` starts it.

The seed comes through the pipe: command lines and environments can be read by other processes. The coordinator keeps
its end open; when it closes, the coordinator is gone, and the judge ends too, its workers with it.
"""

from __future__ import annotations

import json
import os
import threading

from .errors import SelectionError

_MAX_BYTES = 4096


def seed_from(fd: int) -> int | None:
    """Read what the coordinator says, and end this process when it goes away. Raises SelectionError."""
    try:
        line = b""
        while not line.endswith(b"\n") and len(line) < _MAX_BYTES:
            data = os.read(fd, 1)
            if not data:
                break
            line += data
        seed = json.loads(line)["seed"]
    except (OSError, ValueError, KeyError, TypeError):
        raise SelectionError("--control: is for `grader batch` only, which passes an open pipe") from None
    if not isinstance(seed, int | None):
        raise SelectionError(f"--control: {seed!r} is no seed")
    threading.Thread(target=_end_with, args=(fd,), daemon=True, name="control").start()
    return seed


def _end_with(fd: int) -> None:
    while os.read(fd, 1):
        pass
    os._exit(3)

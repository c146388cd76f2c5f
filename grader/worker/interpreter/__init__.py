"""Triton's CPU interpreter with its faults mended and every access checked (untrusted worker side).

The zygote calls `install` once, after importing triton with TRITON_INTERPRET=1 and before any submission; a worker
wraps each call of an entry point in `record`. Imports only the standard library, torch, triton and numpy.
"""

from __future__ import annotations

import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction

from . import (
    access,
    atomics,
    dot,
    host_driver,
    launch,
    libdevice,
    lifting,
    numerics,
    programs,
    reductions,
    semantics,
    shortcuts,
    state,
    tuning,
)
from .launch import record, stored_elements
from .state import Fault, Launch, Options, Record, Unsupported

__all__ = ["Fault", "Launch", "Options", "Record", "Unsupported", "install", "record", "stored_elements"]

_installed = False


def install() -> None:
    """Mend the interpreter, once per process; later calls do nothing.

    Names in `triton.language` are changed only while a kernel runs, so a compile in this process sees Triton as it is.

    Raises:
        RuntimeError: triton was imported without TRITON_INTERPRET=1.

    """
    global _installed
    if _installed:
        return
    if not isinstance(tl.standard.sum, InterpretedFunction):
        raise RuntimeError("TRITON_INTERPRET=1 must be in the environment before triton is imported")
    programs.install()
    numerics.install()
    semantics.install()
    access.install()
    atomics.install(lambda: state.current.session.memory)
    dot.install()
    host_driver.install()
    libdevice.install()
    lifting.install()
    reductions.install()
    tuning.install()
    launch.install([*reductions.patches(), *libdevice.patches(), *shortcuts.patches()])
    _installed = True

"""Untrusted side: the system calls of the sandbox that Python has no functions for. Each raises OSError."""

from __future__ import annotations

import ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x20080522

libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int) -> None:
    """Set a property of this process (prctl(2))."""
    _check(libc.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))), "prctl")


def syscall(name: str, number: int, *arguments: object) -> int:
    """Make a system call by its number; integers are passed as longs."""
    values = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _check(int(libc.syscall(ctypes.c_long(number), *values)), name)


def unshare(flags: int) -> None:
    """Give this process namespaces of its own (unshare(2))."""
    _check(libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount, or change a mount (mount(2))."""
    arguments = [each.encode() or None for each in (source, target, kind)]
    _check(libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() or None), f"mount {kind or source} on {target}")


def drop_capabilities() -> None:
    """Give up every capability for good, together with `no_new_privs` (capset(2))."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _check(libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")

"""Untrusted side: takes from the calling process every file but the named ones (Landlock, Linux 5.13 and later).

The kernel's documentation: https://docs.kernel.org/userspace-api/landlock.html. What a kernel is too old to govern is
left out: network and signals come with later versions, and the sandbox has other means for both.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from collections.abc import Iterable

from grader.worker import linux

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
READ = _EXECUTE | _READ_FILE | _READ_DIR
# Everything except running what was written, and making devices.
READ_WRITE = ((1 << 15) - 1) & ~(_EXECUTE | _MAKE_CHAR | _MAKE_BLOCK)
CHANGE = READ | _WRITE_FILE | _TRUNCATE  # what is there already
DEVICE = _WRITE_FILE | _READ_FILE | _IOCTL_DEV
_NETWORK = 0b11  # binding and connecting TCP sockets
_SCOPES = 0b11  # abstract Unix sockets and signals to processes outside


class _Ruleset(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("handled_access_fs", "handled_access_net", "scoped")]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def version() -> int:
    """The version of Landlock that this kernel has, 0 for none."""
    with contextlib.suppress(OSError):
        return linux.syscall("landlock_create_ruleset", _CREATE_RULESET, None, 0, _VERSION_FLAG)
    return 0


def restrict(allowed: Iterable[tuple[str, int]]) -> None:
    """Leave to this process and its children only the paths, each with its rights; those not there are skipped.

    Needs `no_new_privs`. Raises OSError.
    """
    abi = version()
    handled = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)) - 1
    attributes = _Ruleset(handled, _NETWORK if abi >= 4 else 0, _SCOPES if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = linux.syscall("landlock_create_ruleset", _CREATE_RULESET, ctypes.byref(attributes), size, 0)
    try:
        for path, rights in allowed:
            _allow(ruleset, path, rights & handled)
        linux.syscall("landlock_restrict_self", _RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_FILES
        rule = _PathBeneath(rights, fd)
        linux.syscall("landlock_add_rule", _ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(fd)

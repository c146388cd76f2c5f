"""Untrusted side: what `grader doctor --probe` runs as a submission. Each function tries what its docstring says.

An attempt that is refused raises; one that succeeds returns what it got. `targets` is written by `grader/probe.py`.
The judge reads this file as text and never imports it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import tempfile
import time
from pathlib import Path

import targets  # type: ignore[import-not-found] # written for each attempt

_PTRACE_SEIZE, _PTRACE_DETACH = 0x4206, 17
_NEW_USER = 0x10000000
_PR_SET_NAME = 15
_IO_URING_SETUP = 425
_libc = ctypes.CDLL(None, use_errno=True)


def judge_file() -> str:
    """Read a private file of the judge"""
    return Path(targets.judge_file).read_text()


def reference() -> str:
    """Read the oracles in reference/"""
    return Path(targets.reference).read_text()


def other_submission() -> str:
    """Read another submission"""
    return Path(targets.other_submission).read_text()


def other_worker() -> str:
    """Read the sources of another worker"""
    return Path(targets.other_worker).read_text()


def environment() -> str:
    """Find a variable of the judge's environment"""
    return os.environ[targets.variable]


def judge_environ() -> str:
    """Read the judge's environment in /proc"""
    return _first_byte(f"/proc/{targets.judge}/environ")


def judge_command() -> str:
    """Read the judge's command line in /proc"""
    return _first_byte(f"/proc/{targets.judge}/cmdline")


def judge_maps() -> str:
    """Read the judge's memory map"""
    return _first_byte(f"/proc/{targets.judge}/maps")


def judge_memory() -> str:
    """Read the judge's memory"""
    with Path(f"/proc/{targets.judge}/mem").open("rb") as file:
        file.seek(targets.address)
        return repr(file.read(1))


def trace_judge() -> str:
    """Trace the judge (ptrace)"""
    _call(_libc.ptrace, _PTRACE_SEIZE, targets.judge, 0, 0)
    _libc.ptrace(_PTRACE_DETACH, targets.judge, 0, 0)
    return "attached"


def signal_judge() -> str:
    """Send the judge a signal"""
    os.kill(targets.judge, 0)
    return "it would have arrived"


def signal_zygote() -> str:
    """Send the zygote a signal"""
    os.kill(os.getppid(), 0)
    return "it would have arrived"


def connect() -> str:
    """Connect to a server"""
    socket.create_connection(("127.0.0.1", targets.port), timeout=5).close()
    return "connected"


def look_up() -> str:
    """Send a name server a question"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"question", ("127.0.0.1", targets.port))
    return "sent"


def write_outside() -> str:
    """Write outside its own folders"""
    for folder in targets.outside:
        try:
            Path(tempfile.mkdtemp(dir=folder)).rmdir()
        except OSError:
            continue
        return str(folder)
    raise PermissionError("nowhere")


def change_source() -> str:
    """Change its own source file"""
    with Path(__file__).open("a") as file:
        file.write("\n")
    return "written"


def change_code() -> str:
    """Change the worker's code or its folder"""
    Path(tempfile.mkdtemp(dir=targets.code)).rmdir()
    return "written"


def namespaces() -> str:
    """Become root of a user namespace"""
    _call(_libc.unshare, _NEW_USER)
    return "done"


def io_uring() -> str:
    """Open an io_uring, which gets around filters"""
    space = ctypes.create_string_buffer(256)
    os.close(_call(_libc.syscall, _IO_URING_SETUP, 1, space))
    return "opened"


def processes() -> str:
    """Start more processes than the limit"""
    for _ in range(targets.processes + 10):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    return f"{targets.processes + 10} started"


def memory() -> str:
    """Allocate more memory than the limit"""
    return f"{len(bytearray(targets.memory_bytes + (1 << 20)))} bytes"


def shared_memory() -> str:
    """Share memory without a file, which no limit of a process counts"""
    mmap.mmap(-1, 1 << 20).close()
    return "mapped"


def fill_tmp() -> str:
    """Fill /tmp"""
    part = targets.file_bytes // 2
    with tempfile.TemporaryDirectory() as folder:
        for number in range(targets.tmp_bytes // part + 1):
            with Path(folder, str(number)).open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, part)
    return "written"


def large_file() -> str:
    """Write a file larger than the limit"""
    with tempfile.TemporaryFile() as file:
        os.truncate(file.fileno(), targets.file_bytes + 1)
    return "written"


def daemon() -> str:
    """Leave a process behind"""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _libc.prctl(_PR_SET_NAME, targets.daemon.encode(), 0, 0, 0)
            time.sleep(60)
        os._exit(0)
    os.wait()
    return str(targets.daemon)


def _first_byte(path: str) -> str:
    with Path(path).open("rb") as file:
        return f"{len(file.read(1))} byte"


def _call(function: object, *arguments: object) -> int:
    result = function(*arguments)  # type: ignore[operator]
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


def attempt() -> None:
    """Never called: everything happens when the file is loaded."""


print(globals()[targets.attempt](), end="")  # noqa: T201

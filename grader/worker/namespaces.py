"""Untrusted side: network, mounts and shared memory of a process's own, where the kernel lets it have them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from grader.worker import linux

_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_NETWORK = 0x00020000, 0x08000000, 0x10000000, 0x40000000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_EXEC, _REMOUNT = 1, 2, 4, 8, 32
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18
HIDDEN_BYTES = 64 << 10  # what may be written to a hidden folder


def enter() -> None:
    """Take namespaces: as root directly, else inside a user namespace. The process must have one thread.

    Raises OSError.
    """
    uid, gid = os.getuid(), os.getgid()
    flags = _NEW_MOUNTS | _NEW_NETWORK | _NEW_IPC
    linux.unshare(flags if uid == 0 else flags | _NEW_USER)
    if uid != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    keep_to_oneself()
    if uid == 0:
        # Workers have another uid each, and see no process of any other. Some containers allow no new /proc.
        with contextlib.suppress(OSError):
            linux.mount("proc", "/proc", "proc", _NO_SUID | _NO_DEVICES | _NO_EXEC, "hidepid=2")


def keep_to_oneself() -> None:
    """Let no mount of this namespace spread to the one it was copied from."""
    linux.mount("", "/", "", _PRIVATE | _RECURSIVE)


def new_mounts() -> None:
    """A mount namespace for this process alone."""
    linux.unshare(_NEW_MOUNTS)
    keep_to_oneself()


def hide(folders: Iterable[str], keep: Iterable[str], size: int = HIDDEN_BYTES, mode: int = 0o755) -> None:
    """Put an empty folder of limited size over each; what is to be kept inside is there as before, and read-only."""
    kept = _outermost(keep)
    for folder in _outermost(folders):
        inside = [path for path in kept if path != folder and _is_below(path, folder)]
        if folder in kept or not Path(folder).is_dir():
            continue
        with _opened(inside) as opened:
            linux.mount("tmpfs", folder, "tmpfs", _NO_SUID | _NO_DEVICES, f"size={size},mode={mode:o}")
            for path, fd in opened:
                # Looked up by descriptor: by its name it is hidden now.
                source = f"/proc/self/fd/{fd}"
                if Path(source).is_dir():
                    Path(path).mkdir(parents=True)
                else:
                    Path(path).parent.mkdir(parents=True, exist_ok=True)
                    Path(path).touch()
                linux.mount(source, path, "", _BIND | _RECURSIVE)
                # A remount has to name what the mount has already, or in a user namespace it is refused.
                locked = os.statvfs(path).f_flag & (_NO_SUID | _NO_DEVICES | _NO_EXEC)
                linux.mount("", path, "", _REMOUNT | _BIND | _READ_ONLY | locked)


@contextlib.contextmanager
def _opened(paths: Iterable[str]) -> Iterator[list[tuple[str, int]]]:
    opened: list[tuple[str, int]] = []
    try:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                opened.append((path, os.open(path, os.O_PATH | os.O_CLOEXEC)))
        yield opened
    finally:
        for _, fd in opened:
            os.close(fd)


def _outermost(paths: Iterable[str]) -> list[str]:
    """The paths without those that lie inside another of them."""
    found: list[str] = []
    for path in sorted(set(paths)):
        if not any(_is_below(path, other) for other in found):
            found.append(path)
    return found


def _is_below(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)

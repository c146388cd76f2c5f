"""Trusted side: the command that starts the zygote in a bubblewrap sandbox: processes, network, mounts of its own, and
a file system of only what it needs.

Bubblewrap mounts from outside what the sandbox shows; the zygote in it gives each worker its user, its /tmp and its
filters as at the lower levels, for which it keeps a few capabilities that no worker has.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

NAMESPACES = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
# Of root, whose zygote changes users and folders of workers, ends them, and mounts their /tmp.
CAPABILITIES_OF_ROOT = ("SETUID", "SETGID", "KILL", "CHOWN", "DAC_OVERRIDE", "SYS_ADMIN")
SMALL_BYTES = 64 << 10


def program() -> str | None:
    """Where bubblewrap is, None where it is not installed."""
    return shutil.which("bwrap")


def command(inner: Sequence[str], readable: Iterable[str], *, gpu: bool) -> list[str]:
    """The command line that runs `inner` where only `readable` is there, at its own place and read-only."""
    bwrap = program()
    assert bwrap is not None
    root = os.getuid() == 0
    capabilities = CAPABILITIES_OF_ROOT if root else ("SYS_ADMIN",)
    line = [bwrap, *NAMESPACES, "--die-with-parent", *([] if root else ["--unshare-user"])]
    for name in capabilities:
        line += ["--cap-add", f"CAP_{name}"]
    # /dev is a file system in memory: without a limit half of it could be filled.
    line += ["--proc", "/proc", "--dev", "/dev"]
    if gpu:
        for device in sorted(Path("/dev").glob("nvidia*")):
            line += ["--dev-bind-try", str(device), str(device)]
    line += ["--size", str(SMALL_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108
    line += ["--size", str(SMALL_BYTES), "--tmpfs", "/tmp"]  # noqa: S108 - each worker mounts its own over it
    shown = outermost(readable)
    for parent in sorted({str(parent) for path in shown for parent in Path(path).parents}):
        # Made by itself it would be for its owner alone, and workers are other users.
        line += ["--perms", "0755", "--dir", parent]
    for path in shown:
        # /bin and /lib are links on most systems; what they point to is shown by itself.
        line += (
            ["--symlink", str(Path(path).readlink()), path] if Path(path).is_symlink() else ["--ro-bind", path, path]
        )
    return [*line, "--remount-ro", "/", "--chdir", "/", "--", *inner]


def outermost(paths: Iterable[str]) -> list[str]:
    """The paths that exist, without those inside another of them."""
    found: list[str] = []
    for path in sorted(set(paths)):
        if Path(path).exists() and not any(Path(path).is_relative_to(other) for other in found):
            found.append(path)
    return found

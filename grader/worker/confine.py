"""Untrusted side: puts the zygote and each worker into the sandbox, before any code of a submission is there.

The judge chooses, this module does: what it is told to do and can't is an OSError, never left out. `settings`:
    namespaces     take a network, mounts and shared memory of its own
    private_mounts give each worker a /tmp of its own, of `tmp_bytes`
    drop_uid       run each worker as a user of its own; the zygote must be root
    landlock       leave only `read` (files and folders) and the worker's folder
    seccomp        refuse system calls
    hide           folders that are empty inside, except for what is in `read`
    keep           folders inside hidden ones that stay, besides `read`
    gpu            devices and files of CUDA stay within reach
As a program it tries all this and answers in JSON on stdout: see `main`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from grader.worker import landlock, linux, namespaces, seccomp

TMP = "/tmp"  # noqa: S108 - inside it is the worker's own
Settings = Mapping[str, Any]
OPEN_FILES = 4096
LAST_UID = 65519
# What libraries look up about the machine and about themselves.
_PROC_FILES = ("cpuinfo", "meminfo", "stat", "filesystems", "version", "devices", "driver", "sys", "loadavg", "mounts",
               "modules")  # fmt: skip
_above: set[int] = set()  # the zygote, what started it, and their process group: no target of signals
_DEVICES = ("null", "zero", "full", "random", "urandom")


def enter(settings: Settings) -> None:
    """Confine the zygote: nobody reads its memory, and what it takes here every worker has."""
    if not settings:
        return
    _above.update({os.getpid(), os.getppid(), os.getpgrp()} - {0})
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    if settings["namespaces"]:
        # /proc/self belongs to root while the process is not dumpable, its uid_map too.
        linux.prctl(linux.PR_SET_DUMPABLE, 1)
        namespaces.enter()
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        # Workers hide /tmp themselves, with a folder of their own in it.
        namespaces.hide([path for path in settings["hide"] if path != TMP], [*settings["read"], *settings["keep"]])


def become(settings: Settings, limits: Mapping[str, int], folder: str, uid: int) -> None:
    """Confine a worker, for good. Its files are in `folder`, which it may read; it may write `scratch_of`."""
    if not settings:
        return
    scratch = scratch_of(settings, folder)
    if settings["private_mounts"]:
        namespaces.new_mounts()
        namespaces.hide([TMP], [*settings["read"], folder], limits["tmp_bytes"], 0o1777)
    os.chdir(scratch)
    tempfile.tempdir = scratch  # the zygote may have looked up its own
    os.environ.update(dict.fromkeys(("HOME", "TMPDIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"), scratch))
    if settings["drop_uid"]:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    linux.drop_capabilities()
    # A change of the user id clears both.
    linux.prctl(linux.PR_SET_DUMPABLE, 1)
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    if settings["landlock"]:
        landlock.restrict(_allowed(settings, folder, scratch))
    if settings["seccomp"]:
        seccomp.restrict(sorted(_above), gpu=settings["gpu"])


def scratch_of(settings: Settings, folder: str) -> str:
    """Where a worker may write: /tmp where that is its own, else `scratch` in its folder."""
    return TMP if settings["private_mounts"] else f"{folder}/scratch"


def limit(limits: Mapping[str, int], settings: Settings) -> None:
    """Set the limits of the kernel that hold for every process by itself, and for all processes of a user."""
    values = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: limits["memory_bytes"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_CPU: limits["cpu_s"],
    }
    if settings:
        values[resource.RLIMIT_NOFILE] = OPEN_FILES
    own_user = settings and (settings["drop_uid"] or (settings["namespaces"] and os.getuid() != 0))
    if own_user:
        values[resource.RLIMIT_NPROC] = limits["processes"]
    elif os.getuid() != 0:  # root is exempt
        values[resource.RLIMIT_NPROC] = limits["processes"] + _tasks_of(os.getuid())
    for name, value in values.items():
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))


def _tasks_of(uid: int) -> int:
    """Threads that the user runs already: the limit counts all of them, a desktop's too."""
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == uid:
                    total += int((entry / "stat").read_text().rpartition(")")[2].split()[17])
            except OSError:  # it ended while we looked
                continue
    return total


def _allowed(settings: Settings, folder: str, scratch: str) -> list[tuple[str, int]]:
    own = f"/proc/{os.getpid()}"
    readable = [*settings["read"], folder, own, *(f"/proc/{name}" for name in _PROC_FILES)]
    allowed = [(path, landlock.READ) for path in readable]
    allowed += [(f"/dev/{name}", landlock.DEVICE) for name in _DEVICES]
    if settings["gpu"]:
        allowed += [(str(path), landlock.DEVICE | landlock.READ) for path in Path("/dev").glob("nvidia*")]
        allowed.append(("/sys", landlock.READ))
        # The driver names its threads, in task/*/comm, and gives up with error 304 where it can't.
        allowed.append((f"{own}/task", landlock.CHANGE))
    return [*allowed, (scratch, landlock.READ_WRITE)]


def main() -> None:
    """Say what this machine lets a process do and, with SETTINGS as argument, whether that sandbox can be entered.

    What of the settings is not there is left out of the sandbox that is tried in the end. Where all of it is there, it
    is tried once: a network of its own takes longer to make than the rest together.
    """
    settings = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    found: dict[str, Any] = {"drop_uid": "", "namespaces": "", "seccomp": "", "landlock": landlock.version()}
    if settings:
        settings["landlock"] = settings["landlock"] and found["landlock"] > 0
    problem = rehearse(settings) if settings else ""
    if problem or not settings:
        found = facts()
    if problem:
        if settings["namespaces"] and found["namespaces"]:
            settings |= {"namespaces": False, "private_mounts": False}
        settings["seccomp"] = settings["seccomp"] and not found["seccomp"]
        problem = rehearse(settings)
    sys.stdout.write(json.dumps({"facts": found, "problem": problem}))


def facts() -> dict[str, Any]:
    """For each layer "" or what stands in its way, and the version of Landlock."""

    def restrict() -> None:
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
        seccomp.restrict([], gpu=False)

    return {
        "drop_uid": _attempt(lambda: os.setresuid(LAST_UID, LAST_UID, LAST_UID))
        if os.getuid() == 0
        else "this user is not root",
        "namespaces": _attempt(namespaces.enter),
        "seccomp": _attempt(restrict),
        "landlock": landlock.version(),
    }


def rehearse(settings: Settings) -> str:
    """Enter the sandbox as a zygote and a worker do, and read there what both need; "" or what went wrong."""

    def both() -> None:
        enter(settings)
        problem = _attempt(lambda: _as_worker(settings))
        if problem:
            raise OSError(problem)

    return _attempt(both)


def _as_worker(settings: Settings) -> None:
    limits = {"tmp_bytes": 1 << 20, "memory_bytes": 1 << 32, "file_bytes": 1 << 20, "cpu_s": 10, "processes": 64}
    limit(limits, settings)
    become(settings, limits, settings["folder"], settings["uid"])
    for path in (*sys.path, settings["folder"]):
        os.scandir(path).close()
    Path(__file__).read_bytes()
    (Path(scratch_of(settings, settings["folder"])) / "written").write_bytes(b"x")


def _attempt(action: Callable[[], object]) -> str:
    """Do something in a process of its own; "" where it worked, else the error."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - whatever it is, it goes to the judge
            os.write(write, f"{error}"[:500].encode() or b"failed")
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as file:  # noqa: PTH123 - a descriptor
        text = file.read().decode()
    status = os.waitpid(pid, 0)[1]
    return text or ("" if status == 0 else f"it was killed by signal {os.WTERMSIG(status)}")

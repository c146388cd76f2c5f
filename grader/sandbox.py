"""Trusted side: which sandbox this machine can put a submission into, and how its zygote is started in it.

Each level has what the ones below it have:
    L0  none: limits on memory, file size and time, and the end of the whole process tree
    L1  every worker is a user of its own, who may read and write nothing of the judge's
    L2  Landlock leaves only the interpreter, the libraries and the worker's folder; seccomp refuses the network, other
        processes and the kernel's risky parts
    L3  bubblewrap: its own processes, network, and a file system with nothing else in it
Network, mounts and /tmp of its own come at L1 and L2 too where the kernel lets this user have them, and a control
group where one can be made. A level counts as there when a process has been through it, not when its parts are.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from . import bubblewrap
from .cgroup import Cgroup, CgroupError
from .errors import SelectionError
from .home import Home, libraries

Level = Literal["L0", "L1", "L2", "L3"]
Choice = Literal["auto", "L0", "L1", "L2", "L3"]
LEVELS: tuple[Level, ...] = get_args(Level)

TRIAL_TIMEOUT_S = 20.0
# Users that exist nowhere: systemd takes its dynamic users from them.
FIRST_UID, UIDS = 61184, 4336
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/sys/devices/system", "/etc/ld.so.cache",
           "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime", "/etc/nsswitch.conf",
           "/etc/passwd", "/etc/group")  # fmt: skip
_OF_CUDA = ("/sys", "/run/nvidia-persistenced")
# Emptied for the worker where it has its own mounts; what it needs of them is put back.
_HIDDEN = ("/home", "/root", "/tmp", "/var/tmp", "/dev/shm", "/run", "/mnt", "/media", "/srv")  # noqa: S108
_NEVER_HIDDEN = ("/usr", "/etc", "/proc", "/sys", "/dev", "/bin", "/lib")
_PR_SET_DUMPABLE = 4


@dataclass(frozen=True)
class Facts:
    """What this machine lets the judge's user do: "" for yes, else what stands in the way."""

    drop_uid: str = ""
    namespaces: str = ""
    seccomp: str = ""
    landlock: int = 0  # its version, 0 for none
    root: bool = field(default_factory=lambda: os.getuid() == 0)


@dataclass(frozen=True)
class Sandbox:
    """A level with what goes into it here. The default is none."""

    level: Level = "L0"
    facts: Facts = field(default_factory=Facts)

    @property
    def drops_uid(self) -> bool:
        """Whether every worker is a user of its own."""
        return self.level != "L0" and self.facts.root

    def settings(self, home: Home, *, gpu: bool) -> dict[str, Any]:
        """What `grader/worker/confine.py` is told to do."""
        if self.level == "L0":
            return {}
        inside = self.level == "L3"
        upper = self.level in ("L2", "L3")
        namespaces = not inside and not self.facts.namespaces
        return {
            "namespaces": namespaces,
            "private_mounts": inside or namespaces,
            "drop_uid": self.facts.root,
            "landlock": upper and self.facts.landlock > 0,
            "seccomp": upper and not self.facts.seccomp,
            "read": [str(home.code), *_readable(gpu=gpu)],
            "keep": [str(home.workers)],
            "hide": _hidden(),
            "gpu": gpu,
        }

    def command(self, inner: list[str], home: Home, *, gpu: bool) -> list[str]:
        """The command line that runs `inner`, which confines itself by `settings`, inside what has to be around it."""
        if self.level != "L3":
            return inner
        return bubblewrap.command(inner, [str(home.code), str(home.workers), *_readable(gpu=gpu)], gpu=gpu)

    def group(self, memory_bytes: int, processes: int) -> Cgroup | None:
        """A control group with these limits, None where there can be none."""
        if self.level != "L0":
            with contextlib.suppress(CgroupError):
                return Cgroup.create(memory_bytes, processes)
        return None


@dataclass(frozen=True)
class Trial:
    """A level as it is on this machine, and what keeps it from being entered, "" for nothing."""

    sandbox: Sandbox
    missing: str


def choose(choice: Choice, *, gpu: bool = False) -> Sandbox:
    """The sandbox of this level, or for `auto` of the highest that there is. Raises SelectionError."""
    if choice == "auto":
        return next(trial.sandbox for level in reversed(LEVELS) if not (trial := attempt(level, gpu=gpu)).missing)
    trial = attempt(choice, gpu=gpu)
    if trial.missing:
        raise SelectionError(f"--sandbox {choice}: not possible here: {trial.missing}; or use --sandbox auto")
    return trial.sandbox


def attempt(level: Level, *, gpu: bool = False) -> Trial:
    """Send a process through a level, as a zygote and a worker go."""
    # With everything that a level may have; the trial finds out what of it is there.
    wanted = Sandbox(level, Facts(landlock=1))
    if level == "L0":
        return Trial(Sandbox(), "")
    if level == "L1" and not wanted.facts.root:
        return Trial(wanted, "workers can become another user only where the grader runs as root")
    if level == "L3" and bubblewrap.program() is None:
        return Trial(wanted, "bubblewrap is not installed; apt-get install bubblewrap")
    home = Home()
    try:
        uid = FIRST_UID if wanted.drops_uid else None
        folder = home.worker_folder(uid)
        settings = {**wanted.settings(home, gpu=gpu), "folder": str(folder), "uid": uid or 0}
        answer = _ask(wanted.command(home.command("confine", json.dumps(settings)), home, gpu=gpu))
    finally:
        home.close()
    facts = _facts(answer)
    problem = _lacking(level, facts) if "facts" in answer else ""
    if not problem and answer["problem"]:
        problem = _explain(level, str(answer["problem"]))
    return Trial(Sandbox(level, facts), problem)


def machine_facts() -> Facts:
    """What the kernel lets the judge's user do, found by doing it."""
    home = Home()
    try:
        return _facts(_ask(home.command("confine")))
    finally:
        home.close()


def _facts(answer: dict[str, Any]) -> Facts:
    if "facts" not in answer:
        problem = str(answer["problem"])
        return Facts(problem, problem, problem)
    found = answer["facts"]
    return Facts(str(found["drop_uid"]), str(found["namespaces"]), str(found["seccomp"]), int(found["landlock"]))


def group_problem() -> str:
    """What keeps this user from making a control group, "" for nothing."""
    try:
        Cgroup.create(1 << 30, 64).close()
    except CgroupError as error:
        return str(error)
    return ""


def protect_judge() -> None:
    """Keep other processes of the judge's user from reading its memory, and from tracing it (PR_SET_DUMPABLE)."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def first_uid() -> int:
    """Where the users of one zygote's workers begin. Random, so that graders side by side rarely share one."""
    return random.randrange(UIDS)  # noqa: S311 - not a secret


def uid_of(first: int, worker: int) -> int:
    """The user of a worker."""
    return FIRST_UID + (first + worker) % UIDS


def _lacking(level: Level, facts: Facts) -> str:
    """What a level needs and this machine does not have."""
    if facts.root and facts.drop_uid:
        return f"a worker can't become another user ({facts.drop_uid}); give the container more user ids"
    if level == "L2" and not facts.landlock:
        return "the kernel has no Landlock; use Linux 5.13 or later, with `landlock` in its boot option `lsm=`"
    if level == "L2" and facts.seccomp:
        return f"no system call filter can be installed ({facts.seccomp}); use a kernel with CONFIG_SECCOMP_FILTER"
    return ""


def _explain(level: Level, problem: str) -> str:
    if level == "L3":
        return (
            f"bubblewrap does not work here ({problem}); it needs version 0.7 or later and user namespaces, which "
            "Ubuntu allows by sysctl kernel.apparmor_restrict_unprivileged_userns=0, and a container by --privileged"
        )
    return (
        f"the sandbox can't be entered ({problem}); the user that workers become must be able to read {sys.prefix} "
        f"and {sys.base_prefix}, and to reach TMPDIR"
    )


def _ask(command: list[str]) -> dict[str, Any]:
    """Run a trial; its answer, or the problem that kept it from answering."""
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
    try:
        done = subprocess.run(command, capture_output=True, env=environment, timeout=TRIAL_TIMEOUT_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"problem": str(error)}
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        return {"problem": words[-1] if words else f"it ended with code {done.returncode}"}
    return answer


def _readable(*, gpu: bool) -> list[str]:
    """The interpreter, its libraries, and what they read of the system."""
    paths = [*_SYSTEM, *libraries(), sys.prefix, sys.base_prefix]
    if gpu:
        named = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), os.environ.get("CUDA_HOME", "")]
        paths += [*_OF_CUDA, *_compilers(), *named]
    found = [path for path in paths if path.startswith("/") and Path(path).exists()]
    # A link and what it points to: one is how it is asked for, the other how it is known to the kernel.
    return sorted({*found, *(str(Path(path).resolve()) for path in found)})


def _compilers() -> list[str]:
    """The C compilers that Triton may build its launcher with, and what belongs to each: all may lie outside /usr."""
    named = [os.environ.get("CC", ""), "gcc", "clang", "cc", "as", "ld"]
    programs = [Path(found) for name in named if name and (found := shutil.which(name))]
    paths = []
    for program in {*programs, *(program.resolve() for program in programs)}:
        # A compiler's folder only where it looks like one: a bin/ in somebody's home has much else beside it.
        prefix = program.parent.parent
        own = any((prefix / folder).is_dir() for folder in ("lib/gcc", "lib64/gcc", "libexec/gcc", "lib/clang"))
        paths.append(str(prefix if own else program))
    return paths


def _hidden() -> list[str]:
    folders = [*_HIDDEN, str(Path(__file__).parent.parent), str(Path.cwd())]
    return [path for path in folders if not any(Path(each).is_relative_to(path) for each in _NEVER_HIDDEN)]

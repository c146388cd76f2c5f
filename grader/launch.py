"""Trusted side: launches the process of a zygote. Imports no torch, so that it can be done before the judge does."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import subprocess
from dataclasses import dataclass
from typing import Literal

from .cgroup import Cgroup
from .errors import SelectionError
from .home import Home
from .sandbox import Choice, Sandbox, choose, protect_judge

Mode = Literal["interpreter", "gpu"]

# What CUDA and its compilers look up; everything else of the judge's environment stays with the judge.
GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_HOME", "LD_LIBRARY_PATH", "CC")


# What a control group allows until the rubric's limits are known: enough to import torch.
EARLY_MEMORY_BYTES, EARLY_PROCESSES = 4 << 30, 512


@dataclass(frozen=True)
class Launched:
    """A process that imports, what it runs in, and the judge's end of its control socket."""

    home: Home
    sandbox: Sandbox
    group: Cgroup | None
    process: subprocess.Popen[bytes]
    control: socket.socket

    def discard(self) -> None:
        """End it unused."""
        self.control.close()
        self.process.kill()
        self.process.wait()
        self.home.close()
        if self.group is not None:
            self.group.close()


_early: list[tuple[Choice, Launched]] = []


def start_early(choice: Choice) -> None:
    """Launch a zygote of the interpreter for whoever asks first: the judge's imports take as long."""
    with contextlib.suppress(SelectionError):  # said once it is known what else is wrong
        sandbox = choose(choice)
        group = sandbox.group(EARLY_MEMORY_BYTES, EARLY_PROCESSES)
        _early.append((choice, start(Home(), "interpreter", sandbox, group, spawn=False)))
        atexit.register(discard_early)


def early_sandbox(choice: Choice) -> Sandbox | None:
    """What a process was launched early in, by this choice of a level; None where there is none."""
    return next((launched.sandbox for chosen, launched in _early if chosen == choice), None)


def take_early(sandbox: Sandbox) -> Launched | None:
    """The process that was launched early in this sandbox, once; None where there is none."""
    if _early and _early[0][1].sandbox == sandbox:
        return _early.pop()[1]
    return None


def discard_early() -> None:
    """End what was launched early and not taken."""
    while _early:
        _early.pop()[1].discard()


def start(home: Home, mode: Mode, sandbox: Sandbox, group: Cgroup | None, *, spawn: bool) -> Launched:
    """Launch a zygote in a folder of its own, inside its sandbox and control group, without waiting for it."""
    ours, theirs = socket.socketpair()
    gpu = mode == "gpu"
    command = home.command("zygote", str(theirs.fileno()), json.dumps(sandbox.settings(home, gpu=gpu)))
    command = sandbox.command(command, home, gpu=gpu)
    if sandbox.level != "L0":
        protect_judge()
    if group is not None:
        command = group.command(command)
    with theirs, home.log.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            command,
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            cwd=home.path,
            env=_environment(home, mode, sandbox, spawn=spawn),
        )
    return Launched(home, sandbox, group, process, ours)


def _environment(home: Home, mode: Mode, sandbox: Sandbox, *, spawn: bool) -> dict[str, str]:
    """What the workers' processes get of the judge's environment: what is named here, and no more."""
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(home.path),
        "TMPDIR": str(home.path),
        "TRITON_CACHE_DIR": str(home.path / "triton"),
        "OMP_NUM_THREADS": "1",
    }
    if sandbox.level != "L0":  # their users have no entry in /etc/passwd
        environment |= {"USER": "worker", "LOGNAME": "worker"}
        environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # its pool would be larger than the limit of processes
    if spawn:  # a profiler hands itself on to child processes in variables of its own
        environment = {**os.environ, **environment, "GRADER_SPAWN": "1"}
    if mode == "interpreter":
        environment["TRITON_INTERPRET"] = "1"
    else:
        environment |= {name: os.environ[name] for name in GPU_VARIABLES if name in os.environ}
    return environment

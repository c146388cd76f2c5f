"""Trusted side: attacks the sandbox with a submission, and says what was refused (`grader doctor --probe`)."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InfrastructureError
from .home import remove_tree
from .loading import load_message
from .rubric import Limits
from .runner import Worker, WorkerGone
from .sandbox import LEVELS, Level
from .zygote import FILE_BYTES, Zygote

SUBMISSION = Path(__file__).parent / "probe_submission.py"
TIMEOUT_S = 30.0
DEATH_TIMEOUT_S = 5.0
VARIABLE = "GRADER_PROBE"

# The lowest level that refuses an attempt on every machine that has the level. Many are refused lower where the kernel
# gives network and mounts of one's own.
PROMISED: Mapping[str, Level] = {
    "judge_file": "L1",
    "reference": "L2",
    "other_submission": "L2",
    "other_worker": "L1",
    "environment": "L0",
    "judge_environ": "L1",
    "judge_command": "L2",
    "judge_maps": "L1",
    "judge_memory": "L1",
    "trace_judge": "L1",
    "signal_judge": "L1",
    "signal_zygote": "L1",
    "connect": "L2",
    "look_up": "L2",
    "write_outside": "L2",
    "change_source": "L1",
    "change_code": "L1",
    "namespaces": "L2",
    "io_uring": "L2",
    "processes": "L1",
    "memory": "L0",
    "shared_memory": "L2",
    "fill_tmp": "L3",
    "large_file": "L0",
    "daemon": "L0",
}


@dataclass(frozen=True)
class Attempt:
    """One attempt at one level. `detail` is the error that refused it, or what it got."""

    name: str
    level: Level
    refused: bool
    detail: str

    @property
    def promised(self) -> bool:
        """Whether the level has to refuse it."""
        return LEVELS.index(self.level) >= LEVELS.index(PROMISED[self.name])


def titles() -> dict[str, str]:
    """What each attempt tries, by its name."""
    functions = [node for node in ast.parse(SUBMISSION.read_text()).body if isinstance(node, ast.FunctionDef)]
    found = {node.name: ast.get_docstring(node) or "" for node in functions if node.name in PROMISED}
    return {name: title[:1].lower() + title[1:] for name, title in found.items()}


def run(zygote: Zygote) -> Iterator[Attempt]:
    """Make every attempt, each in a worker of its own. The zygote must not be started yet.

    Raises InfrastructureError.
    """
    folder = Path(tempfile.mkdtemp(prefix="grader-probe-"))
    os.environ[VARIABLE] = "a secret"
    try:
        with _targets(folder, zygote.limits) as targets:
            zygote.ready()
            for name in titles():
                yield _try(zygote, name, targets)
    finally:
        del os.environ[VARIABLE]
        remove_tree(folder)


@contextlib.contextmanager
def _targets(folder: Path, limits: Limits) -> Iterator[dict[str, Any]]:
    """What the attempts aim at: real files, a real server, this process."""
    secret = folder / "judge.txt"
    secret.write_text("a secret")
    other = folder / "submission" / "gelu.py"
    other.parent.mkdir()
    other.write_text("# a submission\n")
    for path, mode in ((folder, 0o755), (secret, 0o600), (other.parent, 0o755), (other, 0o644)):
        path.chmod(mode)
    root = Path(__file__).parent.parent
    marker = ctypes.create_string_buffer(b"secret")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as names:
        port = server.getsockname()[1]
        names.bind(("127.0.0.1", port))
        yield {
            "judge": os.getpid(),
            "address": ctypes.addressof(marker),
            "judge_file": str(secret),
            "reference": str(root / "reference" / "gelu.py"),
            "other_submission": str(other),
            "variable": VARIABLE,
            "port": port,
            "outside": [str(root), str(Path.home()), str(folder), str(other.parent), "/var/tmp", "/dev/shm", "/run"],  # noqa: S108
            "processes": limits.processes,
            "memory_bytes": limits.memory_mib << 20,
            "tmp_bytes": limits.tmp_mib << 20,
            "file_bytes": FILE_BYTES,
            "daemon": f"probe{secrets.token_hex(4)}",
        }


def _try(zygote: Zygote, name: str, targets: dict[str, Any]) -> Attempt:
    level = zygote.sandbox.level
    worker = zygote.fork()
    # Whose sources the attempt is to read.
    bystander = zygote.fork() if name == "other_worker" else worker
    (bystander.folder / "gelu.py").write_text("# another worker's\n")
    code = str(worker.folder.parent.parent / "code")
    facts = {**targets, "attempt": name, "other_worker": str(bystander.folder / "gelu.py"), "code": code}
    (worker.folder / "probe.py").write_bytes(SUBMISSION.read_bytes())
    (worker.folder / "targets.py").write_text("".join(f"{key} = {value!r}\n" for key, value in facts.items()))
    reply = worker.request(load_message(worker, "probe.py", "attempt"), TIMEOUT_S)
    for each in {worker, bystander}:
        each.close()
    if name == "daemon" and _allowed(reply):
        lives = _lives(targets["daemon"])
        return Attempt(name, level, not lives, "it lives on" if lives else "killed with its worker")
    return Attempt(name, level, not _allowed(reply), _detail(reply, worker))


def _allowed(reply: dict[str, Any] | WorkerGone) -> bool:
    return not isinstance(reply, WorkerGone) and reply.get("kind") == "loaded"


def _detail(reply: dict[str, Any] | WorkerGone, worker: Worker) -> str:
    if isinstance(reply, WorkerGone):
        return f"the worker ended with code {reply.code}"
    if _allowed(reply):
        return worker.output.decode(errors="replace").strip()[:200]
    error = reply["error"]
    if error["type"] in (
        "ImportError",
        "ModuleNotFoundError",
        "NameError",
        "AttributeError",
        "SyntaxError",
        "TypeError",
    ):
        raise InfrastructureError(f"the probe itself failed: {error['type']}: {error['message']}")
    return f"{error['type']}: {error['message']}"


def _lives(name: str) -> bool:
    """Whether a process of this name is there, after a moment to die."""
    deadline = time.monotonic() + DEATH_TIMEOUT_S
    while any(_name(path) == name for path in Path("/proc").iterdir() if path.name.isdigit()):
        if time.monotonic() > deadline:
            return True
        time.sleep(0.05)
    return False


def _name(process: Path) -> str:
    with contextlib.suppress(OSError):
        return (process / "comm").read_text().strip()
    return ""

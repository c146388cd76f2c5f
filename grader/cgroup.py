"""Trusted side: a control group around a zygote and all its workers: a limit on memory and processes that nothing in
it can get around. Where this user may make none, the sandbox goes without.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
EMPTY_TIMEOUT_S = 2.0
_LIMITED = {"memory", "pids"}
# Moves itself into the groups named before `--`, then becomes the command behind it.
_JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" || exit 97; shift; done; shift; exec "$@"'


class CgroupError(Exception):
    """No control group can be made here."""


@dataclass(frozen=True)
class Cgroup:
    """The groups that limit one zygote: one for all in version 2 of the interface, one for each limit in version 1."""

    folders: tuple[Path, ...]

    @classmethod
    def create(cls, memory_bytes: int, processes: int, root: Path = ROOT) -> Cgroup:
        """Make the groups. Raises CgroupError."""
        if (root / "cgroup.controllers").is_file():
            wanted = [(_parents_v2(root), {"memory.max": memory_bytes, "memory.swap.max": 0, "pids.max": processes})]
        else:
            wanted = [(_parents_v1(root, "memory"), {"memory.limit_in_bytes": memory_bytes}),
                      (_parents_v1(root, "pids"), {"pids.max": processes})]  # fmt: skip
        made: list[Path] = []
        try:
            for parents, values in wanted:
                made.append(_make(parents))
                for name, value in values.items():
                    if name != "memory.swap.max" or (made[-1] / name).exists():
                        (made[-1] / name).write_text(str(value))
        except OSError as error:
            for folder in made:
                _remove(folder)
            raise CgroupError(f"{error.filename}: {error.strerror}") from None
        return cls(tuple(made))

    def command(self, inner: list[str]) -> list[str]:
        """The command line that runs `inner` in the groups."""
        return ["/bin/sh", "-c", _JOIN, "sh", *map(str, self.folders), "--", *inner]

    def close(self) -> None:
        """Remove the groups; their processes must be gone."""
        for folder in self.folders:
            _remove(folder)


def _make(parents: list[Path]) -> Path:
    error: OSError = FileNotFoundError(2, "no such control group", str(ROOT))
    for parent in parents:
        try:
            return Path(tempfile.mkdtemp(prefix="grader-", dir=parent))
        except OSError as refused:
            error = refused
            error.filename = str(parent)
    raise error


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + EMPTY_TIMEOUT_S
    while folder.exists():
        try:
            folder.rmdir()
        except OSError:  # the last killed process is still ending
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)


def _parents_v1(root: Path, controller: str) -> list[Path]:
    own = [line.split(":", 2)[2] for line in _own_groups() if controller in line.split(":", 2)[1].split(",")]
    return [path for path in (*(root / controller / each.lstrip("/") for each in own), root / controller)
            if path.is_dir()]  # fmt: skip


def _parents_v2(root: Path) -> list[Path]:
    """Groups whose children may have limits: this process's own, or the topmost."""
    own = [root / line.split(":", 2)[2].lstrip("/") for line in _own_groups() if line.startswith("0::")]
    able = []
    for path in (*own, root):
        children = path / "cgroup.subtree_control"
        with contextlib.suppress(OSError):
            if not set(children.read_text().split()) >= _LIMITED:
                children.write_text("+memory +pids")  # refused in a group that has processes itself
            if set(children.read_text().split()) >= _LIMITED:
                able.append(path)
    return able


def _own_groups() -> list[str]:
    try:
        return Path(f"/proc/{os.getpid()}/cgroup").read_text().splitlines()
    except OSError:
        return []

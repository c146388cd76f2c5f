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
# The files of each group, where there is one (version 2) and where there are two (version 1).
_FILES: dict[int, list[tuple[str, ...]]] = {
    1: [("memory.max", "memory.swap.max", "pids.max")],
    2: [("memory.limit_in_bytes",), ("pids.max",)],
}
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
            wanted = [_parents_v2(root)]
        else:
            wanted = [_parents_v1(root, "memory"), _parents_v1(root, "pids")]
        made: list[Path] = []
        try:
            for parents in wanted:
                made.append(_make(parents))  # noqa: PERF401 - what is made before an error is removed
            group = cls(tuple(made))
            group.limit(memory_bytes, processes)
        except OSError as error:
            for folder in made:
                _remove(folder)
            raise CgroupError(f"{error.filename}: {error.strerror}") from None
        return group

    def limit(self, memory_bytes: int, processes: int) -> None:
        """Set the limits, also of groups that have processes. Raises OSError."""
        values = {"memory.max": memory_bytes, "memory.limit_in_bytes": memory_bytes, "memory.swap.max": 0,
                  "pids.max": processes}  # fmt: skip
        for folder, names in zip(self.folders, _FILES[len(self.folders)], strict=True):
            for name in names:
                if name != "memory.swap.max" or (folder / name).exists():
                    (folder / name).write_text(str(values[name]))

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

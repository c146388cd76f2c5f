"""Trusted side: the folder of one zygote: the code that its workers run, a folder for each of them, its log."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent
SCRATCH = "scratch"  # the folder in a worker's folder that it may write


class Home:
    """A new folder with a copy of the worker's code. Others than its owner may pass through it, but not list it."""

    def __init__(self, *, with_reference: bool = False) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="grader-"))
        self.code = self.path / "code"
        self.workers = self.path / "workers"
        self.log = self.path / "zygote.log"
        _copy_worker_code(self.code, with_reference=with_reference)
        self.workers.mkdir()
        for path in (self.path, self.workers):
            path.chmod(0o711)

    def command(self, module: str, *arguments: str) -> list[str]:
        """How to run a module of the worker: with its own copy of the grader's code and the judge's libraries."""
        path = json.dumps([str(self.code), *libraries()])
        boot = f"import sys; sys.path[:] = {path}; from grader.worker import {module}; {module}.main()"
        # -I: no user site, no PYTHON* variables, no script folder on the path; -B: no bytecode beside the submission.
        return [sys.executable, "-I", "-B", "-c", boot, *arguments]

    def worker_folder(self, uid: int | None) -> Path:
        """A folder for one worker's sources, with a folder `scratch` that it may write.

        With a user's id, that user can read the sources and not change them, and no other user can read them.
        """
        folder = Path(tempfile.mkdtemp(prefix="submission-", dir=self.workers))
        scratch = folder / SCRATCH
        scratch.mkdir(0o700)
        if uid is not None:
            os.chown(folder, os.getuid(), uid)
            folder.chmod(0o750)
            os.chown(scratch, uid, uid)
        return folder

    def close(self) -> None:
        """Remove everything."""
        remove_tree(self.path)


def libraries() -> list[str]:
    """Where workers import from besides their own code: the judge's path without the course's `reference`."""
    here = Path.cwd()
    entries = [Path(entry) for entry in sys.path if entry]
    return [str(path) for path in entries if path.is_dir() and path != here and not (path / "reference").is_dir()]


def remove_tree(folder: Path) -> None:
    """Remove a folder that a submission may have filled with anything, as deep as it likes."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["/bin/rm", "-rf", "--", str(folder)], check=False, capture_output=True)  # noqa: S603


def _copy_worker_code(target: Path, *, with_reference: bool) -> None:
    """A folder with only what a worker imports of the grader: `grader/worker` and what both sides share.

    Workers that time baselines import `reference` too.
    """
    for name, content in _worker_code().items():
        if with_reference or not name.startswith("reference/"):
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    for path in (target, *target.rglob("*")):  # whatever the judge's umask is
        path.chmod(0o755 if path.is_dir() else 0o644)


@cache
def _worker_code() -> dict[str, bytes]:
    """The files by name, as they were before the first submission ran: without a sandbox it might change them."""
    worker = [path for path in (_PACKAGE / "worker").rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    shared = [_PACKAGE / name for name in ("__init__.py", "protocol.py", "device_memory.py", "planted.py")]
    reference = (_PACKAGE.parent / "reference").glob("*.py*")
    return {str(path.relative_to(_PACKAGE.parent)): path.read_bytes() for path in (*worker, *shared, *reference)}

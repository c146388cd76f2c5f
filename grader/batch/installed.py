"""What is installed of the grader, as a hash: the same on all machines that grade a class. Imports no torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..versions import installed_version

_LIBRARIES = ("kernel-grader", "torch", "triton", "numpy", "hypothesis")
# Not what judges: a change here changes no verdict.
_NOT_JUDGING = ("batch", "report")


def judge(root: Path) -> str:
    """All code that judges, and the libraries that it judges with."""
    grader = root / "grader"
    judging = [path for path in sorted(grader.rglob("*.py")) if path.relative_to(grader).parts[0] not in _NOT_JUDGING]
    return digest([{name: installed_version(name, "none") for name in _LIBRARIES}, hashes(judging, root)])


def judge_and_references(root: Path) -> str:
    """The same with all of `reference/`."""
    return digest([judge(root), hashes(sorted((root / "reference").rglob("*.py")), root)])


def hashes(paths: Iterable[Path], root: Path) -> dict[str, str]:
    """A hash for each file, by its path below `root`."""
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def digest(value: Any) -> str:
    """A hash of what JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()

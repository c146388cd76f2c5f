"""Classroom 50's downloads: `CLASSROOM-ASSIGNMENT_submissions_TIME/CLASSROOM-ASSIGNMENT-USERNAME/`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .handed import Handed, Person, entries

_ROOT = re.compile(r"^(?P<prefix>.+)_submissions_(?P<time>[0-9T:._Z-]+)$")


def recognises(root: Path) -> bool:
    """By the folder's name and the folders in it."""
    match = _ROOT.match(root.name)
    return match is not None and any(path.name.startswith(f"{match['prefix']}-") for path in entries(root))


def read(root: Path) -> Iterator[Handed]:
    """One attempt a student."""
    folders = [path for path in entries(root) if path.is_dir() and not path.is_symlink()]
    match = _ROOT.match(root.name)
    prefix = f"{match['prefix']}-" if match else ""
    for path in folders:
        login = path.name.removeprefix(prefix)
        yield Handed(path.name, (Person(name=login, login=login),), folders=(path,))

"""A folder or an archive per student, named as staff like. `NAME_attempt_2` is an attempt of NAME."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..unpack import archive_stem, is_archive
from .handed import Handed, Person, entries

_ATTEMPT = re.compile(r"^(?P<name>.+?)[ _-]*attempt[ _-]*(?P<attempt>\d+)$", re.IGNORECASE)


def recognises(root: Path) -> bool:
    """Whether there is anything that can be a submission."""
    return any(path.is_dir() or is_archive(path) for path in entries(root))


def read(root: Path) -> Iterator[Handed]:
    """One attempt a folder or archive."""
    for path in entries(root):
        if path.is_symlink() or not (path.is_dir() or (is_archive(path) and path.is_file())):
            continue
        name = path.name if path.is_dir() else archive_stem(path.name)
        match = _ATTEMPT.match(name)
        person = Person(name=match["name"] if match else name, login=match["name"] if match else name)
        attempt = int(match["attempt"]) if match else 0
        if path.is_dir():
            yield Handed(name, (person,), folders=(path,), attempt=attempt)
        else:
            yield Handed(name, (person,), files=((path.name, path),), attempt=attempt)

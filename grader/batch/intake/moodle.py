"""Moodle's zip of submissions: a folder a participant, `Full Name_12345_assignsubmission_file`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .handed import Handed, Person, entries

_FOLDER = re.compile(r"^(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?P<what>file|onlinetext)_?$")


def recognises(root: Path) -> bool:
    """By the names of its folders."""
    return any(path.is_dir() and _FOLDER.match(path.name) for path in entries(root))


def read(root: Path) -> Iterator[Handed]:
    """One attempt a participant; text typed into Moodle is not a file."""
    for path in entries(root):
        match = _FOLDER.match(path.name)
        if match is None or path.is_symlink() or not path.is_dir() or match["what"] != "file":
            continue
        yield Handed(f"{match['name']}_{match['id']}", (Person(match["name"], match["id"]),), folders=(path,))

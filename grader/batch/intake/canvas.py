"""Canvas's zip of submissions: loose files, whose names say who handed them in and whether late."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from .handed import Handed, Person, entries

_FILE = re.compile(r"^(?P<name>.+?)(?P<late>_LATE)?_(?P<uid>\d+)_(?P<att>\d+)_(?P<file>.+)$")
_ANONYMOUS = re.compile(r"^(?P<late>LATE_)?anon_(?P<uid>[A-Za-z0-9]+)_(?P<att>\d+)_(?P<file>.+)$")
_NO_FILE = re.compile(r"^(?P<name>.+?)(?P<late>_LATE)?_(?P<uid>\d+)(_\d+)?_(?P<file>text|link)\.html$")
# Canvas numbers a file that a student hands in again under the same name: softmax-1.py.
_AGAIN = re.compile(r"-\d+(?=\.(py|zip|tar|tgz|tar\.gz)$)")


def recognises(root: Path) -> bool:
    """By the names of its files: all of them have the form."""
    names = [path.name for path in entries(root)]
    return bool(names) and all(map(_match, names))


def _match(name: str) -> re.Match[str] | None:
    return _NO_FILE.match(name) or _ANONYMOUS.match(name) or _FILE.match(name)


def owner(name: str) -> str | None:
    """The user id in a file's name."""
    match = _match(name)
    return match["uid"] if match else None


def read(root: Path) -> Iterator[Handed]:
    """One attempt a student or group: all files with the same user id. A later attachment replaces an earlier one."""
    found: dict[str, list[tuple[re.Match[str], Path]]] = defaultdict(list)
    for path in entries(root):
        match = _match(path.name)
        if match is not None:
            found[match["uid"]].append((match, path))
    for uid, matches in found.items():
        name = matches[0][0].groupdict().get("name") or f"anon_{uid}"
        files: dict[str, Path] = {}
        for match, path in sorted(matches, key=lambda one: int(one[0].groupdict().get("att") or 0)):
            if match.re is not _NO_FILE:
                files[_AGAIN.sub("", match["file"])] = path
        yield Handed(
            f"{name}_{uid}",
            (Person(name=name, id=uid),),
            files=tuple(files.items()),
            late=any(match["late"] for match, _ in matches),
            notes=() if files else ("handed in text or a link, no file",),
        )

"""What a platform handed over, in one form for all platforms. Trusted side, pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Person:
    """Somebody who handed something in; what a platform does not tell is ""."""

    name: str = ""
    id: str = ""
    email: str = ""
    login: str = ""

    @property
    def keys(self) -> frozenset[str]:
        """What identifies the person for certain, in a form that compares."""
        return frozenset(text.strip().casefold() for text in (self.id, self.email, self.login) if text.strip())

    def __str__(self) -> str:
        return self.name or self.login or self.email or self.id


@dataclass(frozen=True)
class Handed:
    """One attempt of a student or a group: its files, each with the name it goes by, or the reason why it has none.

    `folders` are searched for exercise files, `files` are loose ones; archives among them are unpacked later.
    """

    name: str
    people: tuple[Person, ...]
    folders: tuple[Path, ...] = ()
    files: tuple[tuple[str, Path], ...] = ()
    attempt: int = 0
    submitted: str = ""
    late: bool | None = None
    problem: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def who(self) -> object:
        """Equal for the attempts of the same people. Names are no proof of that: two students may have the same one."""
        known = [{person.id, person.email, person.login} - {""} for person in self.people]
        return frozenset(map(min, known)) if known and all(known) else self.name


def slug(text: str) -> str:
    """A name for files and command lines; a hash keeps names apart that lose characters."""
    safe = _UNSAFE.sub("-", text).strip("-.")[:80]
    if safe == text:
        return safe
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()  # names of files may be any bytes
    return f"{safe or 'submission'}-{digest[:6]}"


def entries(folder: Path) -> list[Path]:
    """What lies in a folder, in order of names, without what systems leave behind."""
    hidden = {"__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini"}
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and path.name not in hidden)

"""GitHub Classroom's clones, `SLUG-submissions/SLUG-LOGIN/`, as `gh classroom clone student-repos` makes them.

A CSV of grades downloaded from Classroom beside the clones or inside says whose they are, groups included.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from .handed import Handed, Person, entries

_SUFFIX = "-submissions"


def recognises(root: Path) -> bool:
    """By the folder's name and clones in it that have the assignment's."""
    slug = root.name.removesuffix(_SUFFIX)
    return slug != root.name and any(path.is_dir() and path.name.startswith(f"{slug}-") for path in entries(root))


def read(root: Path) -> Iterator[Handed]:
    """One attempt a repository."""
    slug = root.name.removesuffix(_SUFFIX)
    members: dict[str, list[Person]] = defaultdict(list)
    times: dict[str, str] = {}
    for row in _rows(root):
        repository = row.get("student_repository_name", "")
        login, identifier = row.get("github_username", ""), row.get("roster_identifier", "")
        members[repository].append(Person(name=identifier, id=identifier, login=login))
        times[repository] = row.get("submission_timestamp", "")
    for path in entries(root):
        if path.is_dir() and not path.is_symlink():
            login = path.name.removeprefix(f"{slug}-")
            people = tuple(members.get(path.name, ())) or (Person(name=login, login=login),)
            yield Handed(path.name, people, folders=(path,), submitted=times.get(path.name, ""))


def _rows(root: Path) -> Iterator[dict[str, str]]:
    for folder in (root, root.parent):
        for path in sorted(folder.glob("*.csv")):
            try:
                with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
                    rows = csv.DictReader(file)
                    if "student_repository_name" in (rows.fieldnames or ()):
                        yield from ({k: v or "" for k, v in row.items() if k} for row in rows)
                        return
            except (OSError, csv.Error):
                continue

"""Who is in the class: a CSV with a row a person, as the `gradebook.csv` of a batch, or a roster with ids and names."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import ReportError
from ..result import Result
from .class_page import ClassRow
from .worksheet import Grade

_YES = ("yes", "true", "1", "late")
_KEYS = ("id", "email", "login", "name")  # what a platform's file may call a person


@dataclass(frozen=True)
class Person:
    """One person. `submission` is the id of a result, "" without one; people of a group have the same.

    `total` stands for the result's points where the file has a column of that name; None there means no grade yet.
    """

    submission: str
    name: str
    keys: tuple[str, ...]
    late: bool
    flags: tuple[str, ...]
    note: str
    total: float | None
    has_total: bool


def read_people(path: Path) -> list[Person]:
    """The rows of the file. Raises ReportError."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            rows = [{key: value or "" for key, value in row.items() if isinstance(key, str)} for row in reader]
            heading = reader.fieldnames or ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ReportError(f"{path}: can't be read as CSV: {error}") from None
    key = next((name for name in ("submission", "id") if name in heading), None)
    if key is None:
        raise ReportError(f"{path}: has no column 'submission' or 'id', which names a submission's folder")
    return [_person(path, line, row, key) for line, row in enumerate(rows, 2)]


def _person(path: Path, line: int, row: Mapping[str, str], key: str) -> Person:
    total = row.get("total", "").strip()
    try:
        points = float(total) if total else None
    except ValueError:
        raise ReportError(f"{path}:{line}: total: {total!r} is no number") from None
    notes = [row.get("status", ""), row.get("notes", "")]
    return Person(
        row[key].strip(),
        row.get("name", "").strip(),
        tuple(known for name in _KEYS if (known := row.get(name, "").strip())),
        row.get("late", "").strip().lower() in _YES,
        tuple(flag.strip() for flag in row.get("flags", "").split(";") if flag.strip()),
        "; ".join(note for note in notes if note and note != "graded"),
        points,
        "total" in row,
    )


def class_rows(results: Mapping[str, Result], people: Sequence[Person], pages: Mapping[str, str]) -> list[ClassRow]:
    """A row a submission, with the names of all its people, then those without one."""
    rows = {name: ClassRow(name, result, page=pages[name]) for name, result in results.items()}
    without = []
    for person in people:
        known = rows.get(person.submission)
        if known is None:
            without.append(ClassRow(next(iter(person.keys), ""), None, person.name, late=person.late,
                                    flags=person.flags, note=person.note, total=person.total))  # fmt: skip
            continue
        rows[person.submission] = replace(
            known,
            name=", ".join(name for name in (known.name, person.name) if name),
            late=known.late or person.late,
            flags=tuple(dict.fromkeys((*known.flags, *person.flags))),
            note=person.note,
            total=person.total,
        )
    return [*rows.values(), *without]


def grades(results: Mapping[str, Result], people: Sequence[Person], feedback: Mapping[str, str]) -> list[Grade]:
    """A grade a person with points; a submission of no known person stands under its own id."""
    found = []
    for name, result in results.items():
        totals, owners = result.totals, [person for person in people if person.submission == name]
        if not owners:
            found.append(Grade((name,), totals.earned, totals.maximum, feedback[name]))
        for owner in owners:
            points = owner.total if owner.has_total else totals.earned
            if points is not None:
                found.append(Grade(owner.keys or (name,), points, totals.maximum, feedback[name]))
    # Points that staff gave for what could not be graded.
    maximum = max((result.totals.maximum for result in results.values()), default=0.0)
    given = [person for person in people if person.submission not in results and person.total is not None]
    return found + [Grade(person.keys or (person.submission,), person.total or 0.0, maximum) for person in given]

"""Canvas: the gradebook that staff exported, with the points of one assignment put in.

Only the columns that say who a row is and the assignment's own are written: uploading the others would put back
grades that have changed since the export.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import ReportError
from .worksheet import Filled, Grade, Sheet

IDENTITY = ("Student", "ID", "SIS User ID", "SIS Login ID", "Integration ID", "Root Account", "Section")
NEEDED = ("Student", "ID", "Section")
_ASSIGNMENT = re.compile(r"^.*\((\d+)\)$")
EXCUSED = "EX"


def fill(path: Path, grades: Sequence[Grade], column: str | None, *, scale: bool = False) -> Filled:
    """`column`, the assignment's title or id, may be left out where the export has only one. Raises ReportError."""
    sheet = Sheet.read(path)
    if lacking := [name for name in NEEDED if name not in sheet.header]:
        raise ReportError(f"{path}: has no column {lacking[0]!r}; give the gradebook as Canvas exported it")
    target = _target(sheet, column)
    student, identity = sheet.header.index("Student"), [i for i, name in enumerate(sheet.header) if name in IDENTITY]
    people, possible = {}, ""
    for index, row in enumerate(sheet.rows):
        if row[sheet.header.index("ID")].strip():
            people[index] = [row[i] for i in identity if sheet.header[i] in IDENTITY[:5]]
        elif row[student].strip() == "Points Possible":
            possible = row[target].strip()
    found = sheet.match(grades, people)
    kept = []
    for index, grade in found.items():
        if sheet.rows[index][target].strip().upper() == EXCUSED:
            kept.append(f"{sheet.rows[index][student]}: excused")
        else:
            sheet.rows[index][target] = grade.scaled(possible, scale=scale, path=path)
    placed = {id(grade) for grade in found.values()}
    return Filled(
        sheet.write([*identity, target]),
        tuple(grade.keys[0] for grade in grades if id(grade) not in placed),
        tuple(sheet.rows[index][student] for index in people if index not in found),
        tuple(kept),
    )


def _target(sheet: Sheet, column: str | None) -> int:
    """The assignment's column. One without an id in parentheses would be made anew by Canvas, so it is refused."""
    assignments = {i: match[1] for i, name in enumerate(sheet.header) if (match := _ASSIGNMENT.match(name))}
    titles = ", ".join(repr(sheet.header[i]) for i in assignments) or "none"
    if column is None:
        if len(assignments) == 1:
            return next(iter(assignments))
        raise ReportError(f"{sheet.path}: name the assignment with --column; the file has {titles}")
    fits = [i for i, number in assignments.items()
            if column in (number, sheet.header[i], sheet.header[i].rpartition(" (")[0])]  # fmt: skip
    if len(fits) != 1:
        problem = (
            "fits several columns; give its id" if fits else "is no assignment of this file: Canvas would add a column"
        )
        raise ReportError(f"{sheet.path}: {column!r} {problem}; it has {titles}")
    return fits[0]

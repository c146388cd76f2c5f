"""Moodle: the grading worksheet that staff downloaded, with grades and feedback put in.

Its headings are in the site's language; those that are not English are named by options.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import ReportError
from .worksheet import Filled, Grade, Sheet

GRADE, MAXIMUM, FEEDBACK, CHANGEABLE = "Grade", "Maximum Grade", "Feedback comments", "Grade can be changed"


def fill(path: Path, grades: Sequence[Grade], column: str | None, feedback_column: str | None = None, *,
         scale: bool = False) -> Filled:  # fmt: skip
    """Fill the grade's column and, where there is one, that of the feedback. Raises ReportError."""
    sheet = Sheet.read(path)
    target = _column(sheet, column or GRADE, "--column")
    comments = _column(sheet, feedback_column, "--feedback-column") if feedback_column else _find(sheet, FEEDBACK)
    maximum, changeable = _find(sheet, MAXIMUM), _find(sheet, CHANGEABLE)
    # Whoever a row is stands left of the grade; the first column is "Participant 123".
    people = {i: [*row[:target], _participant(row[0])] for i, row in enumerate(sheet.rows)}
    found = sheet.match(grades, people)
    kept = []
    for index, grade in found.items():
        row = sheet.rows[index]
        if changeable is not None and row[changeable].strip().casefold() == "no":
            kept.append(f"{row[0]}: Moodle has locked this grade")
            continue
        row[target] = grade.scaled(row[maximum] if maximum is not None else "", scale=scale, path=path)
        if comments is not None:
            row[comments] = html.escape(grade.feedback)
    placed = {id(grade) for grade in found.values()}
    return Filled(
        sheet.write(range(len(sheet.header))),
        tuple(grade.keys[0] for grade in grades if id(grade) not in placed),
        tuple(sheet.rows[index][0] for index in people if index not in found),
        tuple(kept),
    )


def _column(sheet: Sheet, name: str, option: str) -> int:
    found = _find(sheet, name)
    if found is None:
        raise ReportError(f"{sheet.path}: has no column {name!r}; name it with {option}. It has "
                          f"{', '.join(map(repr, sheet.header))}")  # fmt: skip
    return found


def _find(sheet: Sheet, name: str) -> int | None:
    return next((i for i, heading in enumerate(sheet.header) if heading.casefold() == name.casefold()), None)


def _participant(text: str) -> str:
    number = re.search(r"\d+$", text.strip())
    return number[0] if number else ""

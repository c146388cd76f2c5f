"""The book of a class: a row per submission, made of the ledger's grades, overrides and holds. Trusted side, no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..result import Result, TotalsResult
from .entry import Class, Entry
from .ledger import Grade, Hold, Ledger, Override


@dataclass(frozen=True)
class Row:
    """One submission's line. `points` has None for an exercise without a grade; an override takes its place."""

    entry: Entry
    grades: dict[str, Grade]
    points: dict[str, float | None]
    total: float | None
    gradable: float
    maximum: float
    status: str
    notes: Sequence[str] = field(default=())

    @cached_property
    def result(self) -> Result | None:
        """The grades of all exercises as one result, None where there is none."""
        parts = [Result.model_validate_json(grade.result) for grade in self.grades.values()]
        if not parts:
            return None
        last = max(parts, key=lambda part: part.finished)
        return last.model_copy(
            update={
                "submission": last.submission.model_copy(
                    update={"files": {name: file for part in parts for name, file in part.submission.files.items()}}
                ),
                "exercises": {name: exercise for part in parts for name, exercise in part.exercises.items()},
                "warnings": list(dict.fromkeys(warning for part in parts for warning in part.warnings)),
                "started": min(part.started for part in parts),
                "totals": TotalsResult(
                    earned=sum(part.totals.earned for part in parts),
                    gradable=sum(part.totals.gradable for part in parts),
                    maximum=sum(part.totals.maximum for part in parts),
                ),
            }
        )


def read_book(klass: Class, ledger: Ledger) -> list[Row]:
    """A row per entry, in their order."""
    wanted = {(entry.submission, name, key) for entry in klass.entries for name, key in entry.keys.items()}
    grades = {(grade.submission, grade.exercise, grade.key): grade for grade in ledger.grades(wanted)}
    overrides = {(override.submission, override.exercise): override for override in ledger.overrides()}
    holds, faults = ledger.holds(), ledger.faults()
    return [
        _row(
            entry,
            klass.exercises,
            {name: grade for name, key in entry.keys.items() if (grade := grades.get((entry.submission, name, key)))},
            {name: over for (submission, name), over in overrides.items() if submission == entry.submission},
            holds.get(entry.submission),
            faults.get(entry.submission, ""),
        )
        for entry in klass.entries
    ]


def _row(
    entry: Entry, exercises: Sequence[str], grades: dict[str, Grade], overrides: dict[str, Override], hold: Hold | None,
    fault: str,
) -> Row:  # fmt: skip
    given = {name: override for name, override in overrides.items() if override.points is not None}
    points: dict[str, float | None] = {
        name: given[name].points if name in given else grades[name].earned if name in grades else None
        for name in exercises
    }
    complete = all(value is not None for value in points.values())
    total = given[""].points if "" in given else sum(value or 0.0 for value in points.values()) if complete else None
    notes = [*entry.notes]
    notes += [f"override of {name or 'the total'}: {override.points:g} by {override.author}: {override.reason}"
              for name, override in given.items()]  # fmt: skip
    if hold is not None:
        status = "held"
        notes.append(f"held by {hold.author}: {hold.reason}")
    elif entry.submission == "":
        status = "no submission"
    elif entry.problem:
        status = "refused"
        notes.append(entry.problem)
    elif total is not None:
        status = "graded"
    elif fault:
        status = "grader fault"
        notes.append(fault)
    else:
        status = "not graded yet"
    return Row(
        entry, grades, points, total, sum(g.gradable for g in grades.values()), sum(g.maximum for g in grades.values()),
        status, notes,
    )  # fmt: skip


def moves(before: Sequence[Row], after: Sequence[Row]) -> list[tuple[str, float]]:
    """Whose points differ between two books, and by how much: the totals, or the sums over what both books have."""
    old = {row.entry.submission: row for row in before}
    found = []
    for row in after:
        was = old.get(row.entry.submission)
        if was is None or row.total is None or was.total is None:
            continue
        if row.points.keys() == was.points.keys():
            by = row.total - was.total
        else:
            both = row.points.keys() & was.points.keys()
            by = sum((row.points[name] or 0.0) - (was.points[name] or 0.0) for name in both)
        if abs(by) > 1e-9:
            found.append((row.entry.submission, by))
    return found


def changed(before: Sequence[Row], after: Sequence[Row]) -> list[tuple[str, str, str]]:
    """Whose status differs between two books: submission, the old one, the new one. Nothing before the first."""
    if not before:
        return []
    old = {row.entry.submission: row.status for row in before if row.entry.submission}
    new = {row.entry.submission: row.status for row in after if row.entry.submission}
    return [(name, old.get(name, "not there"), status) for name, status in new.items() if old.get(name) != status] + [
        (name, was, "not there") for name, was in old.items() if name not in new
    ]

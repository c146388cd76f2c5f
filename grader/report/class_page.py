"""The page of a class, for staff: everyone's points, which checks fail how often, speeds, and what wants a look.

It has names, and every submission's marks. It is never for students.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from markupsafe import Markup

from ..result import ItemResult, Result
from ..verdict import Status
from . import plots
from .pages import page
from .text import clean, plain, shorten

# What a check's rate of failure counts; the rest says nothing about the submission.
_UNTOLD = (Status.PASSED, Status.NOT_MEASURED, Status.INFRASTRUCTURE_ERROR)


@dataclass(frozen=True)
class ClassRow:
    """One submission, or one person without any: then `result` is None and `note` may say why.

    `page` is the address of the submission's own page, relative to this one, "" where there is none. `total` stands for
    the result's points where staff have changed them.
    """

    id: str
    result: Result | None
    name: str = ""
    page: str = ""
    late: bool = False
    flags: tuple[str, ...] = ()
    note: str = ""
    total: float | None = None


@dataclass(frozen=True)
class Line:
    """A row of the page's table. `marks` are what it can be filtered by, `failed` numbers of the checks it failed."""

    row: ClassRow
    earned: float | None
    points: Mapping[str, float]
    failed: Sequence[int]
    flags: Sequence[str]
    marks: Sequence[str]

    @property
    def label(self) -> str:
        """Its owner's name, or its id."""
        return self.row.name or self.row.id


@dataclass(frozen=True)
class Rate:
    """How many of those that were judged failed a check, and by which status most."""

    name: str
    failed: int
    judged: int
    usual: str

    @property
    def share(self) -> float:
        """Failed of judged."""
        return self.failed / self.judged if self.judged else 0.0


@dataclass(frozen=True)
class Note:
    """An item of someone that wants a look."""

    line: Line
    item: str
    text: str


def render(title: str, rows: Sequence[ClassRow]) -> str:
    """The page."""
    rates = _rates(rows)
    numbers = {rate.name: number for number, rate in enumerate(rates)}
    lines = [_line(row, numbers) for row in rows]
    graded = [line for line in lines if line.earned is not None]
    exercises = list(dict.fromkeys(name for line in lines for name in line.points))
    earned = [line.earned for line in graded if line.earned is not None]
    return page(
        "class.html.j2", "class.js",
        title=title, lines=lines, rates=rates, exercises=exercises, graded=len(graded),
        mean=mean(earned) if earned else 0.0, median=median(earned) if earned else 0.0,
        histogram=plots.points_histogram(_shares(graded)) if graded else None,
        speeds=_speeds(rows),
        flagged=[line for line in lines if "flagged" in line.marks],
        borderline=_notes(lines, lambda item: bool(item.evidence.get("borderline"))),
        faults=_notes(lines, lambda item: item.status is Status.INFRASTRUCTURE_ERROR),
    )  # fmt: skip


def _items(row: ClassRow) -> Iterable[tuple[str, ItemResult]]:
    if row.result is not None:
        for name, exercise in row.result.exercises.items():
            for item in exercise.items:
                yield name, item


def _line(row: ClassRow, numbers: Mapping[str, int]) -> Line:
    points: dict[str, float] = {}
    failed: dict[int, None] = {}
    flags = list(clean(row.flags))
    marks = ["late"] if row.late else []
    for exercise, item in _items(row):
        points[exercise] = points.get(exercise, 0.0) + item.points
        if item.status not in _UNTOLD:
            failed[numbers[f"{exercise} {item.check}"]] = None
        suspicions = [*(["forbidden"] if item.status is Status.FORBIDDEN else []), *clean(item.staff)]
        flags += [f"{exercise}: {suspicion}" for suspicion in suspicions]
        if item.evidence.get("borderline"):
            marks.append("borderline")
        if item.status is Status.INFRASTRUCTURE_ERROR:
            marks.append("fault")
    flags = list(dict.fromkeys(flags))
    if flags:
        marks.append("flagged")
    if row.result is None:
        marks.append("none")
    earned = row.total if row.total is not None or row.result is None else row.result.totals.earned
    return Line(row, earned, points, list(failed), flags, list(dict.fromkeys(marks)))


def _rates(rows: Sequence[ClassRow]) -> list[Rate]:
    """Per exercise and check; a submission fails it where one of its dtypes does."""
    statuses: dict[str, list[Status]] = {}
    for row in rows:
        of_row: dict[str, Status] = {}
        for exercise, item in _items(row):
            if item.gradable and of_row.get(name := f"{exercise} {item.check}", Status.PASSED) is Status.PASSED:
                of_row[name] = item.status
            statuses.setdefault(f"{exercise} {item.check}", [])
        for name, status in of_row.items():
            statuses[name].append(status)
    rates = []
    for name, found in statuses.items():
        failed = [status for status in found if status is not Status.PASSED]
        usual = max(sorted(set(failed)), key=failed.count).value if failed else ""
        rates.append(Rate(plain(name), len(failed), len(found), usual))
    return rates


def _shares(lines: Sequence[Line]) -> list[float]:
    totals = [line.row.result.totals for line in lines if line.row.result is not None]
    return [total.earned / total.maximum if total.maximum else 0.0 for total in totals]


def _speeds(rows: Sequence[ClassRow]) -> list[tuple[str, float, Markup]]:
    """Per benchmark its name, the median and a histogram of the speedups."""
    found: dict[str, list[Mapping[str, float]]] = {}
    for row in rows:
        for exercise, item in _items(row):
            if "speedup" in item.evidence:
                found.setdefault(f"{exercise} {item.benchmark}", []).append(item.evidence)
    speeds = []
    for name, measured in found.items():
        speedups, first = [facts["speedup"] for facts in measured], measured[0]
        speeds.append((name, median(speedups), plots.speed_histogram(speedups, first["floor"], first["target"])))
    return speeds


def _notes(lines: Sequence[Line], wanted: Callable[[ItemResult], bool]) -> list[Note]:
    return [
        Note(line, f"{exercise} {item.check} {item.benchmark or item.dtype}", shorten(item.message, 300))
        for line in lines
        for exercise, item in _items(line.row)
        if wanted(item)
    ]

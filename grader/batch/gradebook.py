"""Writes the book: gradebook and flagged list as CSV, results and feedback per submission, the table on screen.

Trusted side. Text of students is data here: control characters go, and no cell starts a formula.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..report import markdown
from ..report.view import make_view
from ..result import ItemResult, Result
from ..rubric import Rubric
from ..verdict import Status
from .book import Row
from .entry import Class, Who, replace_text

SHOWN_ROWS = 40
# What a spreadsheet would take for the start of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_DETAIL = 500  # characters of what only staff see; results/ID.json has all
_TELL_STAFF = (Status.FORBIDDEN, Status.FALLBACK)


def write_gradebook(out: Path, klass: Class, rows: Sequence[Row]) -> None:
    """`gradebook.csv`: a line per person. Points of what is held back or not graded are left empty, never 0."""
    heading = ["name", "id", "email", "login", "submission", "submitted", "late", *klass.exercises, "total", "gradable",
               "maximum", "status", "notes"]  # fmt: skip
    lines = []
    for row in rows:
        shown = row.status != "held"
        for person in row.entry.people or (Who(),):
            late = {True: "yes", False: "no", None: ""}[row.entry.late]
            lines.append(
                [person.name, person.id, person.email, person.login, row.entry.submission, row.entry.submitted, late,
                 *(_points(row.points[name]) if shown else "" for name in klass.exercises),
                 _points(row.total) if shown else "", _points(row.gradable), _points(row.maximum), row.status,
                 "; ".join(row.notes)]
            )  # fmt: skip
    replace_text(out / "gradebook.csv", table(heading, lines))


def write_submissions(out: Path, rows: Sequence[Row], rubric: Rubric) -> None:
    """`results/ID.json` and `feedback/ID.md` for each graded submission, and nothing that the book has no more.

    The results of what is held back lie in `held/`, where reports don't look.
    """
    kept = set()
    for row in rows:
        result = row.result
        if result is None:
            continue
        name = row.entry.submission
        folder = "held" if row.status == "held" else "results"
        kept |= {out / folder / f"{name}.json", out / "results" / f"{name}-files"}
        replace_text(out / folder / f"{name}.json", result.model_dump_json(by_alias=True, indent=1))
        if row.status != "held":
            kept.add(out / "feedback" / f"{name}.md")
            replace_text(out / "feedback" / f"{name}.md", feedback(result, row, rubric))
    for path in [*out.glob("held/*.json"), *out.glob("results/*"), *out.glob("feedback/*.md")]:
        if path not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def write_pictures(out: Path, submission: str, key: str, pictures: Mapping[str, str]) -> None:
    """Put the pictures of an exercise's grade where `pictures_of` says that they are."""
    for name, text in pictures.items():
        replace_text(out / "results" / pictures_of(submission, key, [name])[0], text)


def pictures_of(submission: str, key: str, pictures: Sequence[str]) -> list[str]:
    """Where the pictures of a grade with this key lie, as paths from the folder of results."""
    return [f"{submission}-files/{key[:12]}-{PurePath(picture).name}" for picture in pictures]


def feedback(result: Result, row: Row, rubric: Rubric) -> str:
    """What a student gets: their view of the result, and what was decided by hand."""
    changed = [note for note in row.notes if note.startswith("override")]
    return markdown.render(make_view(result, rubric, staff=False)) + "".join(f"\n{note}\n" for note in changed)


def flags(klass: Class, rows: Sequence[Row]) -> list[list[str]]:
    """What staff should look at: submission, kind and detail of each."""
    found = [["", "refused", reason] for reason in klass.refused]
    for row in rows:
        name = row.entry.submission or str(row.entry.people[0])
        if row.status != "graded":
            found.append([name, row.status, "; ".join(row.notes)])
        elif row.entry.notes:
            found.append([name, "note", "; ".join(row.entry.notes)])
        result = row.result
        for exercise, graded in result.exercises.items() if result else ():
            found += [[name, what, f"{exercise} {detail}"] for what, detail in _odd_items(graded.items)]
    return found


def _odd_items(items: Iterable[ItemResult]) -> Iterable[tuple[str, str]]:
    """Kind and detail of what is odd about an exercise's items; what is said of several is one."""
    where: dict[tuple[str, str], list[str]] = {}
    for item in items:
        told = []
        if item.status in _TELL_STAFF:
            told.append((str(item.status), item.message))
        if item.staff:
            told.append(("suspicious", json.dumps(item.staff, default=str)[:_DETAIL]))
        if item.evidence.get("borderline"):
            told.append(("borderline", item.message))
        for each in told:
            where.setdefault(each, []).append(f"{item.check} {item.benchmark or item.dtype}")
    for (what, detail), places in where.items():
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        yield what, f"{places[0]}{more}: {detail}"


def write_flags(out: Path, found: Sequence[Sequence[str]]) -> None:
    """`flagged.csv`."""
    replace_text(out / "flagged.csv", table(["submission", "what", "detail"], found))


def show(console: Console, klass: Class, rows: Sequence[Row]) -> None:
    """The gradebook on screen, or its start where the class is large."""
    view = Table(title=Text(klass.title), title_justify="left")
    view.add_column("submission", max_width=20)
    for name in klass.exercises:
        view.add_column(name.replace("_", " "), justify="right")
    for name in ("total", "of"):
        view.add_column(name, justify="right", no_wrap=True)
    view.add_column("status", min_width=6)
    for row in rows[:SHOWN_ROWS]:
        name = row.entry.submission or ", ".join(map(str, row.entry.people))
        cells = [_points(row.points[name]) for name in klass.exercises]
        view.add_row(*map(_plain, [name, *cells, _points(row.total), _points(row.gradable), row.status]))
    console.print(view)
    if len(rows) > SHOWN_ROWS:
        console.print(f"… and {len(rows) - SHOWN_ROWS} more in gradebook.csv")


def table(heading: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Lines as CSV, harmless to spreadsheets."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows([_cell(cell) for cell in line] for line in lines)
    return buffer.getvalue()


def _cell(text: str) -> str:
    plain = "".join(c if c.isprintable() else " " for c in text)
    return f"'{plain}" if plain.startswith(_FORMULA) and not _is_number(plain) else plain


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _plain(text: str) -> Text:
    return Text("".join(c if c.isprintable() else " " for c in text))


def _points(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")

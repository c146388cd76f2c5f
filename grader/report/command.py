"""The command `grader report`: results in, a report in another system's format out."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..cli_input import errors_end_the_command
from ..errors import ReportError
from ..judging import default_root
from ..result import Result, load_result
from ..rubric import Rubric, load_rubric
from . import canvas, class_page, classroom50, github, gradescope, html, junit, markdown, moodle, prairielearn, table
from .people import Person, class_rows, read_people
from .people import grades as people_grades
from .text import number, plain
from .view import View, make_view
from .worksheet import Filled


class Format(StrEnum):
    """What `--to` takes."""

    HTML = "html"
    GRADESCOPE = "gradescope"
    PRAIRIELEARN = "prairielearn"
    CLASSROOM50 = "classroom50"
    GITHUB = "github"
    JUNIT = "junit"
    CANVAS = "canvas"
    MOODLE = "moodle"
    CSV = "csv"
    MARKDOWN = "markdown"


class Reader(StrEnum):
    """Whom a report is for."""

    STUDENT = "student"
    STAFF = "staff"


# Formats with one file a submission: how to write it, and its suffix.
_SINGLE: Mapping[Format, tuple[Callable[[View], str], str]] = {
    Format.HTML: (html.render, ".html"),
    Format.GRADESCOPE: (gradescope.render, ".json"),
    Format.PRAIRIELEARN: (prairielearn.render, ".json"),
    Format.CLASSROOM50: (lambda view: classroom50.render(view, os.environ), ".json"),
    Format.GITHUB: (lambda view: _github(view), ".md"),
    Format.JUNIT: (junit.render, ".xml"),
    Format.MARKDOWN: (markdown.render, ".md"),
    Format.CSV: (lambda view: table.render([view]), ".csv"),
}
# Formats in which one file holds several people's results, when there are several.
_SHARED = (Format.HTML, Format.CSV)


@dataclass(frozen=True)
class Loaded:
    """A result with the file it was read from."""

    path: Path
    result: Result

    @property
    def id(self) -> str:
        """The submission's id."""
        return self.result.submission.id


def report(
    paths: Annotated[
        list[Path], typer.Argument(help="result.json files, or folders with results, as a batch leaves one")
    ],
    to: Annotated[Format, typer.Option(help="the format")],
    out: Annotated[Path, typer.Option(help="the file to write; a folder where there are several submissions")],
    view: Annotated[
        Reader | None, typer.Option(help="for whom; a file that holds several people's is for staff")
    ] = None,
    rubric: Annotated[Path | None, typer.Option(help="the policy, which says what a student's report shows")] = None,
    published: Annotated[bool, typer.Option(help="show students what waits for the due date or publication")] = False,
    roster: Annotated[
        Path | None, typer.Option(help="CSV of the class: a batch's gradebook.csv, or id, name, late, flags")
    ] = None,
    worksheet: Annotated[Path | None, typer.Option(help="canvas, moodle: the file downloaded from there")] = None,
    column: Annotated[str | None, typer.Option(help="canvas: assignment; moodle: heading of the grades")] = None,
    feedback_column: Annotated[str | None, typer.Option(help="moodle: heading of the feedback")] = None,
    scale: Annotated[bool, typer.Option(help="canvas, moodle: bring points to the scale there")] = False,
    partial: Annotated[bool, typer.Option(help="canvas, moodle: write even if someone is not found there")] = False,
) -> None:
    """Turn results into a report: for people (html, markdown, csv) or for a platform."""
    with errors_end_the_command():
        loaded = load_rubric(rubric or default_root() / "rubric.yaml").rubric
        results = _load(paths)
        people = read_people(roster) if roster else []
        if to in (Format.CANVAS, Format.MOODLE):
            if view is Reader.STUDENT:
                raise ReportError(f"--view student: a file for {to.value} holds everyone's points; it is for staff")
            if worksheet is None:
                raise ReportError(f"--to {to.value} needs --worksheet FILE, the file downloaded from there")
            by_id = {found.id: found.result for found in results}
            feedback = {name: _feedback(result, loaded) for name, result in by_id.items()}
            grades = people_grades(by_id, people, feedback)
            if to is Format.CANVAS:
                filled = canvas.fill(worksheet, grades, column, scale=scale)
            else:
                filled = moodle.fill(worksheet, grades, column, feedback_column, scale=scale)
            _write_filled(out, filled, partial=partial)
        elif len(results) > 1 or (to is Format.HTML and people):
            _write_class(to, out, results, loaded, people, view, published=published)
        else:
            staff = view is Reader.STAFF
            _write(out, _SINGLE[to][0](_view(results[0], loaded, staff=staff, to=to, published=published)))


def _load(paths: Sequence[Path]) -> list[Loaded]:
    """The results of all paths, in order; each submission once."""
    found: dict[str, Loaded] = {}
    for path in paths:
        for file in _files(path):
            loaded = Loaded(file, load_result(file))
            if (earlier := found.get(loaded.id)) is not None:
                raise ReportError(f"{file}: is of the submission {loaded.id!r}, as {earlier.path} is; give one of them")
            found[loaded.id] = loaded
    if not found:
        raise ReportError(f"{', '.join(map(str, paths))}: no result.json there; `pytest grader` writes one")
    return list(found.values())


def _files(path: Path) -> list[Path]:
    """A file itself; of a folder those in it, of a batch's folder those in its `results`. No deeper: what is there may
    be a submission's own.
    """
    if not path.is_dir():
        return [path]
    results = path / "results"
    return sorted((results if results.is_dir() else path).glob("*.json"))


def _view(found: Loaded, rubric: Rubric, *, staff: bool, to: Format, published: bool) -> View:
    # Gradescope itself waits for the dates.
    published = published or to is Format.GRADESCOPE
    return make_view(found.result, rubric, staff=staff, published=published, folder=found.path.parent)


def _write_class(to: Format, out: Path, results: Sequence[Loaded], rubric: Rubric, people: Sequence[Person],
                 view: Reader | None, *, published: bool) -> None:  # fmt: skip
    """Several submissions: a page with everyone's or one table for staff, else a file each, named by its submission."""
    if to is Format.GITHUB:
        raise ReportError("--to github: the summary of a run is of one submission; give one result.json")
    staff = view is Reader.STAFF or (view is None and to in _SHARED)
    views = [_view(found, rubric, staff=staff, to=to, published=published) for found in results]
    if to is Format.CSV and staff:
        _write(out, table.render(views))
        return
    render, suffix = _SINGLE[to]
    files = {found.id: f"{_file_name(found.id)}{suffix}" for found in results}
    if len({name.casefold() for name in files.values()}) < len(files):
        raise ReportError(f"{out}: two submissions would get the same file name; give them in two runs")
    folder = "students" if to is Format.HTML and staff else "."
    for shown, found in zip(views, results, strict=True):
        _write(out / folder / files[found.id], render(shown))
    if to is Format.HTML and staff:
        pages = {name: f"{folder}/{file}" for name, file in files.items()}
        rows = class_rows({found.id: found.result for found in results}, people, pages)
        _write(out / "index.html", class_page.render(rubric.title, rows))


def _file_name(text: str) -> str:
    """As it is where it is plain, else with what file systems and addresses don't take replaced."""
    return "".join(c if c.isalnum() or c in "-_.@+" else "_" for c in text).lstrip(".") or "_"


def _feedback(result: Result, rubric: Rubric) -> str:
    """Points per exercise, as the student may know them."""
    exercises = make_view(result, rubric, staff=False).by_exercise()
    return "; ".join(
        f"{name}: {number(sum(e.item.points for e in entries))} / {number(sum(e.item.max_points for e in entries))}"
        for name, entries in exercises.items()
    )


def _write_filled(out: Path, filled: Filled, *, partial: bool) -> None:
    for who in filled.missing:
        sys.stderr.write(f"without a submission: {plain(who)}\n")
    for who in filled.kept:
        sys.stderr.write(f"left alone: {plain(who)}\n")
    if filled.unmatched and not partial:
        raise ReportError(f"not in the worksheet: {', '.join(map(plain, filled.unmatched))}; add a --roster with their "
                          "names, or --partial to write the others")  # fmt: skip
    for who in filled.unmatched:
        sys.stderr.write(f"not in the worksheet: {plain(who)}\n")
    _write(out, filled.text)


def _github(view: View) -> str:
    made = github.render(view, secrets.token_hex(16))
    sys.stdout.write(made.log)
    return made.summary


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise ReportError(f"--out {path}: can't be written: {error.strerror or error}") from None

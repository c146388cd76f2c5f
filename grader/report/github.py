"""GitHub Actions: a step summary, and lines for the log that mark the student's code.

A log line that begins with `::` is a command to the runner. Whatever a submission wrote goes to the log between
`::stop-commands::TOKEN` and `::TOKEN::`, with a token that it can't know, or escaped inside an annotation.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from .markdown import document
from .text import one_line, shorten
from .view import Entry, View
from .words import details, place, within

MOST_BYTES = 1 << 20  # of a step's summary; over it, GitHub drops the whole summary
MOST_ANNOTATIONS = 10  # errors a step; GitHub drops the rest


@dataclass(frozen=True)
class Report:
    """`summary` goes to the file that GITHUB_STEP_SUMMARY names, `log` to standard output."""

    summary: str
    log: str


def render(view: View, token: str, folder: str = "student") -> Report:
    """`folder` is where the exercise files are in the repository; `token` must be new and random for each run."""
    failed = [entry for entry in view.entries if entry.failed]
    log = [f"::stop-commands::{token}"]
    for entry in failed:
        log += [f"{entry.exercise} {entry.name}", *(f"  {line}" for line in details(entry).splitlines())]
    log.append(f"::{token}::")
    annotations = _annotations(failed, folder)
    log += annotations[:MOST_ANNOTATIONS]
    if len(annotations) > MOST_ANNOTATIONS:
        log.append(f"::notice title=grader::{len(annotations) - MOST_ANNOTATIONS} more failures are in the summary")
    summary = within(MOST_BYTES, lambda most: document(view, most))
    return Report(_cut(summary), "\n".join(log) + "\n")


def _annotations(failed: list[Entry], folder: str) -> list[str]:
    """One a line of the student's and message, those that cost most first."""
    found: dict[str, float] = {}
    for entry in failed:
        at = place(entry)
        where = {"file": str(PurePosixPath(folder) / at[0]), "line": str(at[1])} if at else {}
        title = f"{entry.exercise} {entry.item.check}: {entry.item.status.value}"
        properties = ",".join(f"{key}={_escaped(value, _PROPERTY)}" for key, value in {**where, "title": title}.items())
        message = one_line(shorten(f"{entry.item.message} {entry.item.hint}", 600))
        line = f"::error {properties}::{_escaped(message, _MESSAGE)}"
        found[line] = found.get(line, 0.0) + entry.item.max_points
    return sorted(found, key=lambda line: -found[line])


_MESSAGE = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_MESSAGE, ":": "%3A", ",": "%2C"}


def _escaped(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(character, character) for character in text)


def _cut(text: str) -> str:
    data = text.encode()
    return text if len(data) <= MOST_BYTES else data[:MOST_BYTES].decode(errors="ignore")

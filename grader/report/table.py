"""CSV: one row an item, for spreadsheets and statistics."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from .text import one_line
from .view import View

COLUMNS = ("submission", "exercise", "check", "dtype", "benchmark", "status", "points", "max_points", "gradable",
           "speedup", "time_us", "seconds", "message", "hint", "pitfall", "case")  # fmt: skip


def render(views: Iterable[View]) -> str:
    """The file, with a header. A cell that a spreadsheet would take for a formula begins with an apostrophe."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for view in views:
        for entry in view.entries:
            item = entry.item
            texts = (view.submission, entry.exercise, item.check, item.dtype, item.benchmark, item.status.value)
            numbers = (f"{item.points:.4f}", f"{item.max_points:.4f}", "yes" if item.gradable else "no",
                       *(f"{item.evidence[key]:.4f}" if entry.timed else "" for key in ("speedup", "time_us")),
                       f"{item.seconds:.3f}")  # fmt: skip
            rest = (item.message, item.hint, item.pitfall, item.case)
            writer.writerow([*map(_cell, texts), *numbers, *map(_cell, rest)])
    return buffer.getvalue()


def _cell(text: str) -> str:
    text = one_line(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text

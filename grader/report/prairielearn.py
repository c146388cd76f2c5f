"""PrairieLearn's `results.json` for external grading: a score of 0 to 1, and at most 1 MB.

Format: https://prairielearn.readthedocs.io/en/latest/externalGrading/.
"""

from __future__ import annotations

import json
from typing import Any

from .text import number, shorten
from .view import Entry, View
from .words import details, within

MOST_BYTES = 1_000_000


def render(view: View) -> str:
    """The file. Nothing gradable (the grader failed everywhere) is `gradable: false`, which costs no attempt."""
    return within(MOST_BYTES, lambda most: json.dumps(_document(view, most), indent=1, ensure_ascii=False) + "\n")


def _document(view: View, most: int) -> dict[str, Any]:
    totals = view.totals
    if not totals.gradable:
        return {"gradable": False, "message": "Nothing could be graded here; this costs no points.",
                "format_errors": ["Nothing could be graded here; tell the staff if it stays."]}  # fmt: skip
    return {
        "gradable": True,
        "score": min(1.0, max(0.0, round(totals.earned / totals.gradable, 6))),
        "message": _message(view),
        "output": "\n".join(view.warnings),
        "tests": [_test(entry, most) for entry in view.entries],
    }


def _message(view: View) -> str:
    shown = view.shown_totals
    lines = [f"{number(shown.earned)} of {number(shown.gradable)} points that can be graded on this machine"]
    return "\n".join([*lines, *([view.note] if view.note else [])])


def _test(entry: Entry, most: int) -> dict[str, Any]:
    item = entry.item
    # A test without points would turn off the display of points for all.
    return {
        "name": f"{entry.exercise} {entry.name}",
        "points": round(item.points, 4),
        "max_points": round(item.max_points, 4),
        "message": item.status.value,
        "output": shorten(details(entry), most),
    }

"""Gradescope's `results.json`. Gradescope shows the same file to everyone, so a staff view is hidden as a whole.

Format: https://gradescope-autograders.readthedocs.io/en/latest/specs/. Text is sent as `text`, which it escapes.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from ..verdict import Status
from .text import number
from .view import Entry, View
from .words import details


def render(view: View) -> str:
    """The file. An item's visibility is the rubric's; a `generic` one is visible, without details."""
    document: dict[str, Any] = {
        "score": round(view.totals.earned, 4),
        "output": _summary(view),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "hidden" if view.staff else "visible",
        "stdout_visibility": "hidden",
        "tests": [_test(entry) for entry in (*view.entries, *view.hidden)],
        "extra_data": {"gradable": round(view.totals.gradable, 4), "maximum": round(view.totals.maximum, 4)},
    }
    if (seconds := _seconds(view)) is not None:
        document["execution_time"] = seconds
    if view.policy.leaderboard:
        document["leaderboard"] = [
            {"name": f"{entry.exercise} {entry.item.benchmark}", "value": round(entry.item.evidence["speedup"], 3),
             "order": "desc"}
            for entry in view.entries
            if entry.timed and entry.visibility == "visible"
        ]  # fmt: skip
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _test(entry: Entry) -> dict[str, Any]:
    item = entry.item
    status = {"status": "passed" if item.status is Status.PASSED else "failed"} if item.gradable else {}
    return {
        "name": f"{entry.exercise} {entry.name}",
        "score": round(item.points, 4),
        "max_score": round(item.max_points, 4),
        **status,
        "output": details(entry),
        "tags": [entry.exercise, item.check],
        "visibility": "visible" if entry.visibility == "generic" else entry.visibility,
    }


def _summary(view: View) -> str:
    totals = view.totals
    here = ""
    if totals.gradable < totals.maximum:
        # Said without the earned points, which Gradescope hides where a test is hidden.
        here = f"{number(totals.gradable)} of {number(totals.maximum)} points can be graded on this machine."
    return "\n".join(line for line in (here, *view.warnings) if line)


def _seconds(view: View) -> float | None:
    try:
        return (datetime.fromisoformat(view.finished) - datetime.fromisoformat(view.started)).total_seconds()
    except (ValueError, TypeError):
        return None

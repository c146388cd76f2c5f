"""Classroom 50's `result.json`, schema `classroom50/result/v1`. Scores there are whole numbers: points times 100.

Format: https://github.com/foundation50/classroom50/wiki/Advanced-Autograding.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..verdict import Status
from .text import shorten
from .view import Entry, View
from .words import details

SCALE = 100
# The runner gives the facts of the submission in these variables.
VARIABLES = {
    "classroom": "CLASSROOM", "assignment": "ASSIGNMENT", "submission": "SUBMISSION_TAG", "commit": "COMMIT_URL",
    "release": "RELEASE_URL", "review": "REVIEW_URL",
}  # fmt: skip


def render(view: View, environment: Mapping[str, str]) -> str:
    """The file; `environment` has the runner's variables."""
    document: dict[str, Any] = {
        "schema": "classroom50/result/v1",
        **{field: environment.get(variable, "") for field, variable in VARIABLES.items()},
        "datetime": view.finished,
        "score": _scaled(view.totals.earned),
        "max-score": _scaled(view.totals.maximum),
        "tests": [_test(entry) for entry in view.entries],
    }
    document["submission"] = document["submission"] or view.submission
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _test(entry: Entry) -> dict[str, Any]:
    item = entry.item
    return {
        "test-name": f"{entry.exercise} {entry.name}",
        "passed": item.status is Status.PASSED,
        "score": _scaled(item.points),
        "max-score": _scaled(item.max_points),
        "status": item.status.value,
        "output": shorten(details(entry)),
    }


def _scaled(points: float) -> int:
    return round(points * SCALE)

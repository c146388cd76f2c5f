"""Decisions of staff on top of what was graded: overrides and holds, added to the ledger. Trusted side."""

from __future__ import annotations

import math
from pathlib import Path

from ..errors import GraderError
from .entry import load_class
from .ledger import Hold, Override
from .run import open_ledger, write_book


def decide(
    out: Path, submission: str, exercise: str, points: float | None, hold: bool | None, reason: str, author: str,
    url: str | None,
) -> None:  # fmt: skip
    """Add a decision and write the book anew. `hold` None means points, where None takes them back.

    Raises GraderError.
    """
    klass = load_class(out)
    if klass is None:
        raise GraderError(f"{out}: has no class in it; give the --out of grader batch")
    known = [entry.submission for entry in klass.entries if entry.submission]
    if submission not in known:
        raise GraderError(f"{submission}: there is no such submission in {out}; gradebook.csv has their ids")
    if exercise and exercise not in klass.exercises:
        raise GraderError(f"--exercise {exercise}: there is no such exercise; there are {', '.join(klass.exercises)}")
    if not reason.strip():
        raise GraderError("--reason: say why; students may ask")
    if points is not None and not 0 <= points < math.inf:
        raise GraderError(f"--points {points:g}: must be a number of at least 0")
    ledger = open_ledger(out, url)
    if hold is not None:
        ledger.add_hold(Hold(submission, hold, reason, author))
    else:
        ledger.add_override(Override(submission, exercise, points, reason, author))
    write_book(out, klass, ledger, {})
    ledger.close()

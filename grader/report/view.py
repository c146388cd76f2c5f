"""What one reader may see of a result. Every format is made from a view, so nothing left out here can leak there."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..result import ItemResult, Result, TotalsResult
from ..rubric import Reports, Rubric
from ..verdict import Status
from .text import clean, plain

# Of an item's evidence a student sees these; whatever is added later is for staff until it is listed here.
STUDENTS_EVIDENCE = frozenset({
    "cases", "cut_short", "first_wrong", "wrong", "total", "where", "error",
    "printed", "refused", "warnings", "kernels",
    "launches", "launch_count", "launches_with_torch", "bytes_loaded", "bytes_stored", "bytes_moved", "least_bytes",
    "operators", "allocated_bytes", "largest_allocated",
    "credit", "borderline", "speedup", "low", "high", "floor", "target", "baseline", "time_us", "baseline_us",
    "least_us", "baselines_us", "gb_s", "tflop_s", "percent_of_limit", "bound_by", "rounds", "nvtx_range",
})  # fmt: skip
WITHHELD = "The details of this check are not shown."
FAULT = "The grader failed here. It costs no points; tell the staff if it stays."


@dataclass(frozen=True)
class Entry:
    """One item as its reader may see it. `visibility` is the rubric's rule for its check."""

    exercise: str
    item: ItemResult
    visibility: str

    @property
    def name(self) -> str:
        """Unique within a submission: check, dtype and, for a timed item, its benchmark."""
        item = self.item
        return "-".join(part for part in (item.check, item.benchmark or item.dtype) if part)

    @property
    def failed(self) -> bool:
        """Whether the submission is to blame."""
        return self.item.status not in (Status.PASSED, Status.NOT_MEASURED, Status.INFRASTRUCTURE_ERROR)

    @property
    def timed(self) -> bool:
        """Whether it has a measured speedup."""
        return "speedup" in self.item.evidence


@dataclass(frozen=True)
class View:
    """A result for one kind of reader. All text in it is plain and short.

    `totals` are those of the gradebook. `shown_totals` leave out what is hidden, which could be told from them.
    """

    title: str
    submission: str
    staff: bool
    entries: tuple[Entry, ...]
    hidden: tuple[Entry, ...]
    totals: TotalsResult
    environment: tuple[tuple[str, str], ...]
    device: str
    warnings: tuple[str, ...]
    started: str
    finished: str
    policy: Reports
    folder: Path | None = None

    @property
    def shown_totals(self) -> TotalsResult:
        """The totals of the entries."""
        items = [entry.item for entry in self.entries]
        if not self.hidden:
            return self.totals
        return TotalsResult(
            earned=sum(item.points for item in items),
            gradable=sum(item.max_points for item in items if item.gradable),
            maximum=sum(item.max_points for item in items),
        )

    @property
    def note(self) -> str:
        """What is said of hidden checks, "" where there are none."""
        if not self.hidden:
            return ""
        checks = "1 more check is" if len(self.hidden) == 1 else f"{len(self.hidden)} more checks are"
        return f"{checks} graded and not shown here."

    def by_exercise(self) -> dict[str, list[Entry]]:
        """The entries of each exercise, in order."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.exercise, []).append(entry)
        return found


def make_view(
    result: Result, rubric: Rubric, *, staff: bool, published: bool = False, folder: Path | None = None
) -> View:
    """The view for staff or for the student. `published`: what waits for a date is shown. `folder` has the pictures."""
    entries: list[Entry] = []
    hidden: list[Entry] = []
    for name, exercise in result.exercises.items():
        for item in exercise.items:
            rule = rubric.report.visibility.get(item.check, "visible")
            entry = Entry(plain(name), _item(item, rule, staff=staff, published=published), rule)
            (hidden if rule == "hidden" and not staff else entries).append(entry)
    return View(
        title=rubric.title,
        submission=plain(result.submission.id),
        staff=staff,
        entries=tuple(entries),
        hidden=tuple(hidden),
        totals=result.totals,
        environment=tuple(_environment(result, rubric, staff=staff)),
        device=plain(result.environment.device),
        warnings=tuple(clean(result.warnings)),
        started=plain(result.started),
        finished=plain(result.finished),
        policy=rubric.report,
        folder=folder,
    )


def _item(item: ItemResult, rule: str, *, staff: bool, published: bool) -> ItemResult:
    """A copy with the parts that the reader may see."""
    if staff:
        return ItemResult(**clean(item.model_dump()))
    kept = clean(item.model_dump(exclude={"staff", "reproduce", "evidence"}))
    # Staff's own command names their folders.
    reproduce = shlex.join(["pytest", "grader", "--reproduce", kept["case"]]) if item.case else ""
    evidence = {key: clean(value) for key, value in item.evidence.items() if key in STUDENTS_EVIDENCE}
    if item.status is Status.INFRASTRUCTURE_ERROR:
        return ItemResult(**{**kept, "message": FAULT, "hint": "", "pictures": []})
    waits = rule.startswith("after_") and not published
    if rule in ("generic", "hidden") or waits:
        bare = {"message": WITHHELD, "hint": "", "case": "", "pitfall": "", "pictures": []}
        return ItemResult(**{**kept, **bare})
    return ItemResult(**kept, reproduce=reproduce, evidence=evidence)


def _environment(result: Result, rubric: Rubric, *, staff: bool) -> Sequence[tuple[str, str]]:
    """What it was graded with, in words. Another seed than the rubric's is staff's own, and hidden from students."""
    facts = result.environment
    rows = [
        ("device", facts.device), ("driver", facts.driver or ""), ("values judged by", facts.mode),
        ("torch", facts.torch), ("triton", facts.triton), ("python", facts.python), ("grader", facts.grader),
        ("graded", result.finished),
    ]  # fmt: skip
    if staff or facts.seed == rubric.seed:
        rows.append(("seed", str(facts.seed)))
    if staff:
        rows += [("sandbox", facts.sandbox), ("rubric", facts.rubric_sha256[:12])]
    return [(label, plain(value)) for label, value in rows if value]

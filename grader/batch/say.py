"""What a run tells staff on screen. Trusted side; text of students is printed as it is, never as markup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console

from . import book
from .entry import Class
from .intake import TakenIn
from .keys import Key
from .ledger import Ledger
from .slots import Job, Slot


def taken(console: Console, taken: TakenIn, klass: Class) -> None:
    """What was found, and what is odd about it."""
    entries = [entry for entry in klass.entries if entry.submission]
    console.print(f"{len(entries)} submissions ({taken.kind})" + (
        f", {taken.passed_over} earlier or later attempts passed over" if taken.passed_over else ""))  # fmt: skip
    for entry in entries:
        if entry.problem:
            console.print(f"refused: {entry.submission}: {entry.problem}", markup=False, soft_wrap=True)
    for reason in klass.refused:
        console.print(f"not unpacked: {reason}", markup=False, soft_wrap=True)
    nobody = [entry for entry in klass.entries if not entry.submission]
    if nobody:
        names = ", ".join(str(one.people[0]) for one in nobody)
        console.print(f"no submission from {len(nobody)} of the roster: {names}", markup=False, soft_wrap=True)
    for entry in entries:
        for note in entry.notes:
            console.print(f"{entry.submission}: {note}", markup=False, soft_wrap=True)


def plan(
    console: Console,
    jobs: Sequence[Job],
    keys: Mapping[str, Mapping[str, Key]],
    ledger: Ledger,
    slots: Sequence[Slot],
) -> None:
    """How much there is to grade, and for what was graded before, why again."""
    if not jobs:
        console.print("nothing has changed since it was graded")
        return
    last = ledger.last_parts()
    reasons: Counter[str] = Counter()
    for job in jobs:
        for exercise in job.exercises:
            old = last.get((job.submission, exercise))
            reasons["new" if old is None else " and ".join(keys[job.submission][exercise].changes(old))] += 1
    why = ", ".join(f"{count} {reason}{' changed' if reason != 'new' else ''}" for reason, count in reasons.items())
    console.print(f"{len(jobs)} submissions to grade ({why}) on {', '.join(slot.name for slot in slots)}")


def idle(console: Console, klass: Class, ledger: Ledger) -> None:
    """Decisions on what is not in the book: of an attempt before the one that is graded now."""
    known = {entry.submission for entry in klass.entries}
    held = {name: f"held by {hold.author}: {hold.reason}" for name, hold in ledger.holds().items()}
    last = {(one.submission, one.exercise): one for one in ledger.overrides()}
    given = {
        one.submission: f"override by {one.author}: {one.reason}" for one in last.values() if one.points is not None
    }
    for name, what in {**given, **held}.items():
        if name not in known:
            console.print(f"no longer in the book: {name}, {what}; decide again on the attempt that is", markup=False,
                          soft_wrap=True)  # fmt: skip


def moves(console: Console, before: Sequence[book.Row], after: Sequence[book.Row]) -> None:
    """Whose points or status a dry run would change."""
    moved = book.moves(before, after)
    for submission, by in sorted(moved, key=lambda one: one[1]):
        console.print(f"{submission}: {by:+.2f}", markup=False)
    for submission, was, status in book.changed(before, after):
        console.print(f"{submission}: {was}, now {status}", markup=False)
    span = f", {min(by for _, by in moved):+.1f} … {max(by for _, by in moved):+.1f}" if moved else ""
    console.print(f"this change moves {len(moved)} students' submissions{span}; the book is as it was")

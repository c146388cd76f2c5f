"""The findings on mutants as a table, as text and as JSON. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .mutants import Mutant
from .power import Power


def show(console: Console, powers: Sequence[Power], share: float) -> None:
    """Print a table, then everything that keeps an exercise below the bar."""
    table = Table()
    for title in ("exercise", "graded", "caught", "share", "equivalent", "cases", "seconds"):
        table.add_column(title, justify="left" if title == "exercise" else "right", no_wrap=True)
    for power in powers:
        table.add_row(
            power.exercise,
            f"{len(power.findings)} of {power.possible}",
            str(len(power.caught)),
            f"{power.share:.1%}",
            str(len(power.marked)),
            f"{power.median_cases:g}",
            f"{sum(finding.seconds for _, finding in power.findings):.0f}",
        )
    console.print(table)
    by = Counter(finding.check for power in powers for finding in power.caught)
    found = ", ".join(f"{check} {count}" for check, count in by.most_common())
    console.print(f"caught by {found}; cases: the median that an item took; equivalent: marked, not graded")
    for power in powers:
        for mutant, finding in power.survivors:
            _print_mutant(console, mutant, f"passes every check ({finding.cases_in_all} cases)")
        for mutant, finding in power.unclear:
            _print_mutant(console, mutant, f"could not be judged: {finding.fault_of_the_grader}")
        for mutant, finding in power.wrongly_marked:
            _print_mutant(console, mutant, f"is marked as equivalent, but {finding.check} says {finding.message}")
        for mark in power.stale:
            console.print(Text(f"{power.exercise}: equivalent.yaml: no mutant fits the mark '{mark}'; correct it or "
                               "take it out"))  # fmt: skip
    for power in powers:
        if power.share < share:
            console.print(Text(f"{power.exercise}: {power.share:.1%} of the faults are caught, the rubric asks for "
                               f"{share:.1%}"))  # fmt: skip


def _print_mutant(console: Console, mutant: Mutant, what: str) -> None:
    console.print(Text(f"\n{mutant.exercise}, line {mutant.line}, {mutant.mutator}: {what}"))
    console.print(Text(mutant.diff))


def good_enough(powers: Sequence[Power], share: float) -> bool:
    """Whether every exercise reaches the bar, with all mutants judged and all marks right."""
    return all(
        power.share >= share and not power.unclear and not power.wrongly_marked and not power.stale for power in powers
    )


def as_json(powers: Sequence[Power], share: float) -> dict[str, Any]:
    """Everything that was found."""
    return {
        "share_wanted": share,
        "good_enough": good_enough(powers, share),
        "exercises": {
            power.exercise: {
                "possible": power.possible,
                "graded": len(power.findings),
                "caught": len(power.caught),
                "share": power.share,
                "median_cases": power.median_cases,
                "mutants": [{**_identity(mutant), **asdict(finding)} for mutant, finding in power.findings],
                "survivors": [{**_identity(mutant), "diff": mutant.diff} for mutant, _ in power.survivors],
                "equivalent": [{**_identity(mutant), "reason": mark.reason} for mutant, mark in power.marked],
            }
            for power in powers
        },
    }


def _identity(mutant: Mutant) -> dict[str, Any]:
    return {"mutator": mutant.mutator, "line": mutant.line, "function": mutant.function, "before": mutant.before,
            "after": mutant.after}  # fmt: skip

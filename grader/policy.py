"""Trusted side: what the source rules of a rubric say of the files of one exercise. Pure.

Findings of a rule that forbids become the status `forbidden`; those of a rule that warns are for staff only.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from .rubric import SourceRules
from .source_rules import HARMLESS, Finding, read_file
from .submission import Sources
from .verdict import Status, Verdict

# All source that an exercise's file brings in by its imports; reading more would keep the judge busy.
MAX_SOURCE_BYTES = 1 << 18
MOST_NAMED = 3


@dataclass(frozen=True)
class SourceReport:
    """What was found in the files that an exercise's file imports, itself included."""

    forbidden: tuple[Finding, ...] = ()
    suspicious: tuple[Finding, ...] = ()
    staff: dict[str, Any] = field(default_factory=dict)

    def verdict(self) -> Verdict | None:
        """The verdict `forbidden`, where something is."""
        if not self.forbidden:
            return None
        named = "; ".join(str(finding) for finding in self.forbidden[:MOST_NAMED])
        more = len(self.forbidden) - MOST_NAMED
        return Verdict(
            Status.FORBIDDEN,
            named + (f"; and {more} more" if more > 0 else ""),
            "Take it out, or move it below `if __name__ == '__main__':`, which is not graded. Ask the staff where an "
            "exercise needs it.",
            evidence={"rules": [_fact(finding) for finding in self.forbidden]},
        )


def check_sources(sources: Sources | None, rules: SourceRules) -> SourceReport:
    """Read the exercise's file and, of the files beside it, those that it imports."""
    if sources is None or not rules.enabled:
        return SourceReport()
    with warnings.catch_warnings():  # a file's invalid escapes are its own affair
        warnings.simplefilter("ignore")
        found = list(_findings(sources, rules))
    by_severity: dict[str, list[Finding]] = {"forbid": [], "warn": [], "ignore": []}
    for finding in found:
        by_severity[rules.severity(finding.rule)].append(finding)
    suspicious = by_severity["warn"]
    staff = {"source": [_fact(finding) for finding in suspicious]} if suspicious else {}
    return SourceReport(tuple(by_severity["forbid"]), tuple(suspicious), staff)


def _findings(sources: Sources, rules: SourceRules) -> Iterator[Finding]:
    allowed = HARMLESS | set(rules.imports)
    neighbours = {PurePath(name).stem for name in sources.files} - allowed
    waiting, seen, size = [sources.main], {sources.main}, 0
    while waiting:
        name = waiting.pop(0)
        size += len(sources.files[name])
        if size > MAX_SOURCE_BYTES:
            what = f"{size} bytes of source with what is imported, {MAX_SOURCE_BYTES} are read"
            yield Finding(name, 1, "unreadable", what)
            return
        report = read_file(name, sources.files[name], allowed, neighbours)
        yield from report.findings
        imported = sorted({f"{module}.py" for module in report.imports} & sources.files.keys() - seen)
        seen.update(imported)
        waiting.extend(imported)


def _fact(finding: Finding) -> dict[str, Any]:
    return {"file": finding.file, "line": finding.line, "rule": finding.rule, "what": finding.what}

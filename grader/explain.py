"""Trusted side: what a failure teaches: its cause, where the wrong elements are, a picture, a script to debug it with.

Calls the submission a few more times, on the failing case and on cases that tell causes apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from reference.exercise import Case

from .compare import Tolerance, is_right
from .counterexample import grid_of, heat_map, where_wrong
from .diagnosis.causes import differing_runs, find_cause
from .diagnosis.observation import Looks, Observation
from .judge import Caller
from .report import picture
from .verdict import Status, Verdict

EXPLAINED = frozenset({Status.WRONG_VALUES, Status.NOT_FINITE, Status.OUT_OF_BOUNDS, Status.WRONG_SHAPE})
# Slow submissions get their verdict without more calls to tell its cause. For these calls alone: on a busy machine the
# judge's own work on a large case may take longer.
PATIENCE_S = 8.0
MAP = (12, 64)  # characters


def explain(caller: Caller, verdict: Verdict, tolerance_for: Callable[[Case], Tolerance]) -> Verdict:
    """The verdict with its pitfall and hint, where the cause is known, and with its counterexample."""
    if verdict.status not in EXPLAINED or not verdict.case:
        return verdict
    left_s = PATIENCE_S

    def look(case: Case) -> Observation | None:
        nonlocal left_s
        if left_s <= 0:
            return None
        begun = time.monotonic()
        observed = caller.observe(case, tolerance_for(case))
        left_s -= time.monotonic() - begun
        return observed

    case = Case.parse(verdict.case)
    seen = caller.observe(case, tolerance_for(case))
    if _differs(seen.verdict, verdict, exactly=caller.target.device == "cpu"):
        cause = differing_runs() if seen.verdict.status in (*EXPLAINED, Status.PASSED) else None
    else:
        cause = find_cause(seen, Looks(look))
    if cause is not None:
        verdict = replace(verdict, hint=str(cause), pitfall=cause.pitfall)
    return _with_map(verdict, seen)


def _differs(now: Verdict, before: Verdict, *, exactly: bool) -> bool:
    """Whether a call was judged otherwise. Not `exactly`: on a GPU, atomic additions of floats may round otherwise."""
    same_bits = now.evidence.get("output_crc32") == before.evidence.get("output_crc32")
    return now.status is not before.status or (exactly and not same_bits)


def _with_map(verdict: Verdict, seen: Observation) -> Verdict:
    """The verdict with the places of its wrong elements in words, as a map and as a picture."""
    found = seen.wrong_output()
    if found is None:
        return verdict
    expected, allowed = found.expected.values, found.expected.allowed
    right = is_right(found.raw, expected, allowed)
    where = where_wrong(found.wrong)
    evidence = {**verdict.evidence, "where": where}
    lines = heat_map(grid_of(found.values, expected, allowed, right, MAP))
    if len(set("".join(lines[:-1]))) > 1:  # a map of one character says nothing
        evidence["map"] = lines
    title = f"{found.expected.output.name} of {seen.case.describe()}"
    drawn = picture.svg(grid_of(found.values, expected, allowed, right, picture.MOST), title, where)
    return replace(verdict, evidence=evidence, attachments={**verdict.attachments, "svg": drawn})

"""Trusted side: accesses out of bounds that a GPU does not show.

A load without a mask reads what lies behind the tensor, and often nothing comes of it. The interpreter knows every
tensor's own elements, so what passed on a GPU is called on the CPU as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from reference.exercise import Case

from .verdict import Status, Verdict

# What the interpreter can't do, or takes too long for, is not held against a kernel that was right on a GPU.
_POINTLESS = frozenset({Status.NOT_MEASURED, Status.TIMED_OUT, Status.CRASHED, Status.OUT_OF_MEMORY})
_WHERE_SEEN = " (seen by the interpreter: on this GPU the result was right all the same)"


def judge_bounds(judge: Callable[[Case], Verdict], cases: Sequence[Case], budget_s: float) -> Verdict | None:
    """The verdict on the first of the cases with an access out of bounds; None where the interpreter sees none in time.

    `judge` gives its verdict on a case.
    """
    deadline = time.monotonic() + budget_s
    for case in cases:
        verdict = judge(case)
        if verdict.status is Status.OUT_OF_BOUNDS:
            return replace(verdict, message=verdict.message + _WHERE_SEEN)
        if verdict.status in _POINTLESS or time.monotonic() > deadline:
            return None
    return None

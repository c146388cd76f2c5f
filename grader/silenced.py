"""Trusted side: whether a result is right even though no kernel ran. Then something else did the work.

This needs no word of the worker on what it ran: work that no log of operators sees (NumPy, another thread) shows too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from reference.exercise import Case

from .fallback import HINT
from .verdict import Status, Verdict

# Contents that no other case has: a result kept from an earlier call is not taken for work.
_OTHER_SEED = 0x51E7CED


def judge_silenced(judge: Callable[[Case], Verdict], cases: Sequence[Case], seed: int) -> Verdict | None:
    """The verdict on a submission whose result for the largest of the cases is right although its kernels stood still.

    `judge` gives the verdict on a case while launches do nothing. None where nothing is wrong.
    """
    largest = max(cases, key=lambda case: case.numel, default=None)
    if largest is None or not largest.numel:
        return None
    # Of normal values no result is a constant that an allocation could hold.
    tensors = tuple(replace(spec, values="normal") for spec in largest.tensors)
    case = replace(largest, tensors=tensors, seed=(seed ^ _OTHER_SEED) % 2**31)
    if not judge(case).passed:
        return None
    return Verdict(
        Status.FALLBACK,
        f"the result is right even when no kernel runs: something else does the work — {case.describe()}",
        HINT,
        str(case),
    )

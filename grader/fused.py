"""Trusted side: the check `fused`: how many kernels a call launches and how many bytes it moves, counted, not timed.

On a GPU these decide the speed of everything here but large matrix products, and a CPU can count them exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from reference.exercise import DTYPES, Case, Exercise

from .fallback import MOVES_NOTHING
from .rubric import Fused
from .search import Outcome
from .verdict import Status, Verdict


def judge_fused(judge: Callable[[Case], Verdict], exercise: Exercise, cases: Sequence[Case], limits: Fused) -> Outcome:
    """Judge each case as usual, then what it took. The first that took too much is reported."""
    evidence: dict[str, object] = {}
    for number, case in enumerate(cases, 1):
        verdict = judge(case)
        if verdict.passed:
            verdict = _judge_counts(exercise, case, verdict, limits)
        if not verdict.passed:
            return Outcome(verdict, number, cut_short=False)
        evidence = verdict.evidence
    return Outcome(Verdict(Status.PASSED, evidence=evidence), len(cases), cut_short=False)


def _judge_counts(exercise: Exercise, case: Case, verdict: Verdict, limits: Fused) -> Verdict:
    evidence = verdict.evidence
    element_bytes = DTYPES[case.dtype].itemsize
    least = exercise.cost(exercise.shapes(case), element_bytes, **exercise.options_of(case)).bytes_moved
    inputs = sum(spec.numel for spec in case.tensors) * element_bytes
    outputs = sum(prod(output.shape) * DTYPES[output.dtype].itemsize for output in exercise.outputs(case))
    moving = [operator for operator in evidence["operators"] if operator["name"] not in MOVES_NOTHING]
    by_torch = sum(operator["bytes_touched"] for operator in moving)
    moved = evidence["bytes_loaded"] + evidence["bytes_stored"] + by_torch
    launches = evidence["launch_count"] + sum(operator["calls"] for operator in moving)
    facts = {**evidence, "bytes_moved": moved, "least_bytes": least, "launches_with_torch": launches}
    if limits.memory is not None and evidence["allocated_bytes"] > limits.memory * least:
        return Verdict(
            Status.TOO_SLOW,
            f"the call allocates {evidence['allocated_bytes']} bytes, allowed {limits.memory * least:.0f} "
            f"({limits.memory:g} × the least traffic, {least}); the largest tensor has the shape "
            f"{evidence['largest_allocated']} — {case.describe()}",
            "Keep intermediate results in registers, tile by tile: memory may grow with the size of the inputs and "
            "outputs, not with their product.",
            str(case), facts,
        )  # fmt: skip
    if launches <= limits.launches and moved <= limits.traffic * least:
        return Verdict(Status.PASSED, evidence=facts)
    what = "1 launch moves" if launches == 1 else f"{launches} launches move"
    message = (
        f"{what} {moved} bytes; allowed are {limits.launches} and {limits.traffic * least:.0f} "
        f"({limits.traffic:g} × the least, {least})"
    )
    passes = (
        f"The kernels read {evidence['bytes_loaded'] / inputs:.2g} × the bytes of the input and write "
        f"{evidence['bytes_stored'] / outputs:.2g} × those of the output"
    )
    if moving:
        names = ", ".join(f"{operator['name']} ×{operator['calls']}" for operator in moving)
        passes += f"; PyTorch moves {by_torch} bytes beside them ({names})"
    hint = f"{passes}. One pass reads each input once and writes each output once, in one kernel."
    return Verdict(Status.TOO_SLOW, f"{message} — {case.describe()}", hint, str(case), facts)

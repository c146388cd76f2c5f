"""Trusted side: wrong results on a GPU that NVIDIA's assembler made of a right kernel.

ptxas optimises, and is wrong now and then: 12.8, which Triton 3.6 and 3.7 compile for Hopper with, reads a register
before it has written it in some kernels with two products whose operands lie differently in shared memory. Such a
result is wrong each time, so repeating it does not tell.
"""

from __future__ import annotations

from collections.abc import Callable

from .judge import REPEATS, UNSTEADY
from .verdict import Verdict

ASSEMBLED_WRONG = "right only when not optimised"  # what staff are told then


def may_be_assembled_wrong(verdict: Verdict) -> bool:
    """Whether a failure on a GPU is of a kind that wrong machine code shows as."""
    return bool(verdict.case) and (verdict.status in UNSTEADY or "device_lost" in verdict.evidence)


def is_assembled_wrong(interpret: Callable[[], Verdict], call_unoptimised: Callable[[], Verdict]) -> bool:
    """Whether a kernel is right on a case by the interpreter, and each time on the GPU without ptxas's optimisations.

    As often as a race would be looked for: it may not show in other code at once.
    """
    return interpret().passed and all(call_unoptimised().passed for _ in range(1 + REPEATS))

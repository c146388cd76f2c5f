"""From what was seen to at most one hint. Pure. No hint is better than a wrong one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from reference.exercise import Case, Exercise

from .compare import compare
from .expected import Expected, mistakes_of, wrong_outputs

CLOSER = 50


@dataclass(frozen=True)
class Hint:
    """A pitfall's name and what to do about it, in one or two sentences."""

    pitfall: str
    text: str


def explain_values(exercise: Exercise, case: Case, inputs: Sequence[Tensor], output: Tensor,
                   expected: Expected) -> Hint | None:  # fmt: skip
    """The hint for an output of the right shape and dtype whose values are wrong."""
    names = [each.name for each in exercise.gradients(case) or exercise.outputs(case)]
    for pitfall, mistake in mistakes_of(exercise, case).items():
        wrong = wrong_outputs(exercise, case, inputs, mistake)[names.index(expected.output.name)]
        if wrong is not None and wrong.shape == output.shape:
            # What errors are proportional to is known for the right values only: where the mistake is far from those,
            # much closer to it is close enough.
            apart = torch.nan_to_num((wrong - expected.values).abs(), nan=0.0, posinf=0.0)
            allowed = torch.maximum(expected.allowed_around(wrong), apart / CLOSER)
            if compare(output, wrong, allowed) is None:
                return Hint(pitfall, f"The values equal those of a known mistake: {mistake.says}.")
    if output.isnan().any() and case.check == "extreme":
        return Hint(
            "overflow",
            "An intermediate value overflowed: exp() of a large number is infinite, and inf/inf or inf − inf is NaN. "
            "Subtract the maximum first, or rewrite the formula so that exp() only gets numbers ≤ 0.",
        )
    if output.isnan().any():
        return Hint(
            "unwritten_output",
            "New memory is filled with NaN here, so these elements were probably never written: does the grid cover "
            "the whole output, with triton.cdiv for sizes that the block does not divide?",
        )
    return None


def explain_access(message: str) -> Hint:
    """The hint for an access outside a tensor, from the memory check's message."""
    kind = "store" if ": store" in message else "load"
    return Hint(
        f"missing_mask_{kind}",
        f"A {kind} touched memory outside its tensor. Mask it: compare the offsets with the size, as in "
        "`mask=offsets < n`, in every dimension, and multiply each index by its stride.",
    )

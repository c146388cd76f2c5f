"""What was seen of one case: inputs, outputs, what was expected, and the facts beside them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from reference.exercise import Case, Exercise

from ..compare import compare, is_right
from ..expected import Expected
from ..verdict import Status, Verdict

# Within this share of its distance from the right values, an output equals a wrong formula's.
CLOSER = 50


@dataclass(frozen=True)
class Observation:
    """One judged call. `outputs` is empty where there were none of the right form."""

    exercise: Exercise
    case: Case
    inputs: Sequence[Tensor]
    expected: Sequence[Expected]
    outputs: Sequence[Tensor]
    verdict: Verdict
    sources: Mapping[str, bytes]

    @property
    def facts(self) -> Mapping[str, Any]:
        """The evidence."""
        return self.verdict.evidence

    @property
    def reduces(self) -> bool:
        """Whether outputs are sums over many elements, rather than each one's own function."""
        usual = listed(self, "aligned")[0]
        return self.exercise.reduction_length(self.exercise.shapes(usual), **self.exercise.options_of(usual)) > 1

    def wrong_output(self) -> WrongOutput | None:
        """The first output with wrong values; after an access out of bounds that may be none."""
        for number, (expected, output) in enumerate(zip(self.expected, self.outputs, strict=False)):
            wrong = ~is_right(output, expected.values, expected.allowed)
            if wrong.any():
                counts = self.facts.get("stored_elements") or []
                stored = counts[number] if number < len(counts) else None
                return WrongOutput(number, expected, output.to(torch.float64), output, wrong, stored)
        return None


@dataclass(frozen=True)
class WrongOutput:
    """One output with wrong values: as float64 and as it was, which elements are wrong, and how many were stored to."""

    number: int
    expected: Expected
    values: Tensor
    raw: Tensor
    wrong: Tensor
    stored: int | None

    @property
    def errors(self) -> Tensor:
        """The absolute error of each wrong element, 0 of the others."""
        return torch.where(self.wrong, (self.values - self.expected.values).abs(), 0.0)

    def telling(self, explanation: Tensor, where: Tensor | None = None) -> int:
        """How many wrong elements an explanation gets right that isn't true by chance; 0 where it gets any wrong.

        `where` limits what the explanation speaks of. Zeros, ones, infinities and NaN must be equal, but tell nothing.
        """
        if explanation.shape != self.values.shape or not self.explained_by(explanation, where):
            return 0
        plain = explanation.isfinite() & (explanation.abs() > self.expected.allowed) & (explanation != 1)
        return int((self._apart(explanation, where) & plain).sum())

    def explained_by(self, explanation: Tensor, where: Tensor | None = None) -> bool:
        """Whether the output equals an explanation, which differs from what is right."""
        if explanation.shape != self.values.shape or not self._apart(explanation, where).any():
            return False
        return self.agrees_with(explanation, where)

    def agrees_with(self, explanation: Tensor, where: Tensor | None = None) -> bool:
        """Whether the output equals an explanation of its shape, which may be nothing but what is right."""
        # What errors are proportional to is known for the right values only: where the explanation is far from those
        # and from 0, much closer to it is close enough.
        apart = torch.minimum((explanation - self.expected.values).abs(), explanation.abs())
        near = torch.nan_to_num(apart, nan=0.0, posinf=0.0) / CLOSER
        allowed = torch.maximum(self.expected.allowed_around(explanation), near)
        if where is None:
            return compare(self.raw, explanation, allowed) is None
        return compare(self.raw[where], explanation[where], allowed[where]) is None

    def _apart(self, explanation: Tensor, where: Tensor | None) -> Tensor:
        right = self.expected.values
        apart = (explanation - right).abs() > self.expected.allowed
        apart |= explanation.isnan() & ~right.isnan()
        return apart if where is None else apart & where


class CannotTellError(Exception):
    """A look that would tell causes apart could not be taken."""


Judge = Callable[[Case], Observation | None]


class Looks:
    """More calls of the submission, to tell causes apart. Each case is called once, and only so many."""

    def __init__(self, judge: Judge, most: int = 12) -> None:
        self._judge = judge
        self._left = most
        self._seen: dict[str, Observation] = {}

    def at(self, case: Case) -> Observation:
        """What a case gives. Raises CannotTellError."""
        key = str(case)
        if key not in self._seen:
            self._left -= 1
            found = self._judge(case) if self._left >= 0 else None
            if found is None:
                raise CannotTellError
            self._seen[key] = found
        return self._seen[key]

    def passes(self, case: Case) -> bool:
        """Whether a case passes. Raises CannotTellError."""
        return self.at(case).verdict.passed

    def failing(self, seen: Observation, check: str = "aligned", most: int = 4) -> Observation | None:
        """The first of a check's listed cases that fails, in the dtype of what was seen. Raises CannotTellError."""
        for case in listed(seen, check)[:most]:
            found = self.at(case)
            if found.verdict.status in (Status.WRONG_VALUES, Status.NOT_FINITE, Status.OUT_OF_BOUNDS):
                return found
            if not found.verdict.passed:
                raise CannotTellError
        return None


def listed(seen: Observation, check: str) -> list[Case]:
    """The listed cases of a check, with upstream gradients where what was seen has them."""
    backward = bool(seen.exercise.upstream(seen.case))
    return [
        Case(seen.case.exercise, check, seen.case.dtype, inputs.tensors, inputs.seed, inputs.options)
        for inputs in seen.exercise.edge_cases("gradient" if backward else check)
        if not backward or all(spec.layout == "contiguous" for spec in inputs.tensors)
    ]


def contiguous(case: Case) -> Case:
    """The same values, row-major."""
    return replace(case, tensors=tuple(replace(spec, layout="contiguous") for spec in case.tensors))

"""Looks for a case that a submission fails, and for a small one: the listed edge cases first, then Hypothesis.

Deterministic for a seed, as long as no time budget runs out.
"""

from __future__ import annotations

import contextlib
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.errors import Flaky

from reference.exercise import Case, Exercise, Inputs

from .rubric import Cases
from .verdict import Status, Verdict

# A failure of these kinds is quick to see again, so a smaller case is worth looking for.
SHRINKABLE = frozenset(
    {Status.WRONG_VALUES, Status.NOT_FINITE, Status.WRONG_SHAPE, Status.WRONG_DTYPE, Status.OUT_OF_BOUNDS,
     Status.MODIFIED_INPUT, Status.RAISED}
)  # fmt: skip
# How many fresh cases are drawn in search of a failure smaller than one of the listed edge cases.
SMALLER_DRAWS = 30


@dataclass(frozen=True)
class Outcome:
    """The verdict of an item, the number of cases judged for it, and whether a time budget cut it short."""

    verdict: Verdict
    cases: int
    cut_short: bool


class Search:
    """One item's search. `judge` gives the verdict on a case."""

    def __init__(self, judge: Callable[[Case], Verdict], exercise: Exercise, check: str, dtype: str, policy: Cases,
                 seed: int) -> None:  # fmt: skip
        self._judge = judge
        self._exercise = exercise
        self._check = check
        self._dtype = dtype
        self._policy = policy
        # Every item draws its own cases from the one seed of the run.
        self._seed = seed ^ zlib.crc32(f"{exercise.id}/{check}/{dtype}".encode())
        self._seen: dict[str, Verdict] = {}
        self._cut_short = False

    def run(self) -> Outcome:
        """Judge until something fails or everything has passed."""
        deadline = time.monotonic() + self._policy.budget_s
        for index, inputs in enumerate(self._exercise.edge_cases(self._check)):
            verdict = self._verdict_on(replace(inputs, seed=index))
            if not verdict.passed:
                smaller = self._smaller(verdict) if verdict.status in SHRINKABLE else None
                return self._outcome(smaller or verdict)
        found = self._hypothesis(self._policy.generated, deadline, None) if self._policy.generated else None
        return self._outcome(found or Verdict(Status.PASSED))

    def _outcome(self, verdict: Verdict) -> Outcome:
        return Outcome(verdict, len(self._seen), self._cut_short)

    def _verdict_on(self, inputs: Inputs) -> Verdict:
        case = Case(self._exercise.id, self._check, self._dtype, inputs.tensors, inputs.seed, inputs.options)
        key = str(case)
        if key not in self._seen:
            self._seen[key] = self._judge(case)
        return self._seen[key]

    def _smaller(self, verdict: Verdict) -> Verdict | None:
        """A failure of the same status on fewer elements than the listed case, if one turns up soon."""
        if not self._policy.shrink_s:
            return None
        return self._hypothesis(SMALLER_DRAWS, time.monotonic() + self._policy.shrink_s, verdict)

    def _hypothesis(self, draws: int, deadline: float, than: Verdict | None) -> Verdict | None:
        """The smallest failure that Hypothesis finds in `draws` cases and shrinks to before its time is over.

        With `than`, only failures of that status on fewer elements count.
        """
        status = than.status if than else None
        most = Case.parse(than.case).numel if than else None
        best: Verdict | None = None
        best_size = 0
        fault: Exception | None = None

        @hypothesis.seed(self._seed)
        @settings(max_examples=draws, phases=(Phase.generate, Phase.shrink), database=None, deadline=None,
                  report_multiple_bugs=False, print_blob=False, verbosity=Verbosity.quiet,
                  suppress_health_check=list(HealthCheck))  # fmt: skip
        @given(self._exercise.cases(self._check))
        def probe(inputs: Inputs) -> None:
            nonlocal best, best_size, status, deadline, fault
            if fault is not None:
                return
            size = sum(spec.numel for spec in inputs.tensors)
            if most is not None and size >= most:
                return
            if time.monotonic() > deadline and not self._is_seen(inputs):
                self._cut_short |= best is None and than is None
                return
            try:
                verdict = self._verdict_on(inputs)
            except Exception as error:  # noqa: BLE001 - raised below
                # The judge's own fault. Hypothesis would call again, and drop it as flaky where all is well then.
                fault = error
                return
            if verdict.passed or (status is not None and verdict.status is not status):
                return
            if best is None:
                status = verdict.status
                # From here on Hypothesis shrinks. Failures that are slow to repeat are reported as they are.
                deadline = time.monotonic() + (self._policy.shrink_s if status in SHRINKABLE else 0.0)
            if best is None or size < best_size:
                best, best_size = verdict, size
            raise _FoundError

        # Flaky: the deadline passed between a failure and its repetition.
        with contextlib.suppress(_FoundError, Flaky):
            probe()
        if fault is not None:
            raise fault
        return best

    def _is_seen(self, inputs: Inputs) -> bool:
        case = Case(self._exercise.id, self._check, self._dtype, inputs.tensors, inputs.seed, inputs.options)
        return str(case) in self._seen


class _FoundError(Exception):
    """Tells Hypothesis that a case failed."""

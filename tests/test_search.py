"""The search for a failing case: what comes of faults of the judge's own while cases are drawn."""

from __future__ import annotations

import pytest

import reference
from grader.errors import InfrastructureError
from grader.rubric import Cases
from grader.search import Search
from grader.verdict import Status, Verdict

SOFTMAX = reference.load("softmax")
LISTED = len(SOFTMAX.edge_cases("ragged"))
POLICY = Cases(generated=8, budget_s=20, case_timeout_s=10, shrink_s=1)


def search(judge):
    return Search(judge, SOFTMAX, "ragged", "float32", POLICY, seed=1).run()


@pytest.mark.parametrize("faults", [1, 1000])
def test_a_fault_while_cases_are_drawn_is_raised_and_not_taken_for_a_pass(faults):
    calls = 0

    def judge(_):
        nonlocal calls
        calls += 1
        if LISTED < calls <= LISTED + faults:
            raise InfrastructureError("the worker's zygote is gone")
        return Verdict(Status.PASSED)

    with pytest.raises(InfrastructureError, match="zygote is gone"):
        search(judge)
    assert calls == LISTED + 1


def test_what_is_drawn_is_judged_and_its_failure_found():
    def judge(case):
        rows = case.tensors[0].shape[0]
        return Verdict(Status.WRONG_VALUES, case=str(case)) if rows == 2 and case.seed > 100 else Verdict(Status.PASSED)

    assert search(lambda case: Verdict(Status.PASSED)).cases > LISTED
    found = [Search(judge, SOFTMAX, "ragged", "float32", POLICY, seed).run().verdict.status for seed in range(40)]
    assert Status.WRONG_VALUES in found

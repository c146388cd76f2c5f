"""The items that judge values: aligned, ragged, strided and extreme, for each exercise and dtype."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grader.grading import Grading, Item
from grader.report.terminal import explain
from grader.verdict import Status


def test_correctness(item: Item, grading: Grading, record_property: Callable[[str, object], None]) -> None:
    """The submission agrees with the oracle on every case of the check."""
    verdict = grading.grade(item).verdict
    record_property("status", str(verdict.status))
    record_property("points", f"{grading.item_score(item).points:g}")
    if verdict.status is Status.NOT_MEASURED:
        pytest.skip(verdict.message)
    if not verdict.passed:
        pytest.fail(explain(verdict, grading.reproduce(verdict)), pytrace=False)

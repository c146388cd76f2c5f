"""The items that judge values: aligned, ragged, strided, extreme and gradient, for each exercise and dtype."""

from __future__ import annotations

from collections.abc import Callable

from grader.grading import Grading
from grader.items import Item
from grader.report.outcome import report
from reference.exercise import VALUE_CHECKS

CHECKS = (*VALUE_CHECKS, "gradient")


def test_correctness(item: Item, grading: Grading, record_property: Callable[[str, object], None]) -> None:
    """The submission agrees with the oracle on every case of the check."""
    report(grading, item, record_property)

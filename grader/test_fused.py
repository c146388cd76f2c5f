"""The items that count launches and bytes moved, for each exercise and dtype."""

from __future__ import annotations

from collections.abc import Callable

from grader.grading import Grading
from grader.items import Item
from grader.report.outcome import report

CHECKS = ("fused",)


def test_fused(item: Item, grading: Grading, record_property: Callable[[str, object], None]) -> None:
    """The work is done in as few kernels and passes over memory as the rubric asks for."""
    report(grading, item, record_property)

"""The items of exercises in measuring: what each check plants is in `reference/`."""

from __future__ import annotations

from collections.abc import Callable

from grader.grading import Grading
from grader.items import Item
from grader.report.outcome import report
from reference.harness import HARNESS_CHECKS

CHECKS = HARNESS_CHECKS


def test_harness(item: Item, grading: Grading, record_property: Callable[[str, object], None]) -> None:
    """The submission measures the planted workloads as they are."""
    report(grading, item, record_property)

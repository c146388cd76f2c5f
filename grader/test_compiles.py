"""The items that compile every kernel for the GPUs that the rubric names, for each exercise and dtype."""

from __future__ import annotations

from collections.abc import Callable

from grader.grading import Grading
from grader.items import Item
from grader.report.outcome import report

CHECKS = ("compiles",)


def test_compiles(item: Item, grading: Grading, record_property: Callable[[str, object], None]) -> None:
    """A GPU's compiler takes what the submission launches."""
    report(grading, item, record_property)

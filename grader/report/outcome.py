"""Turns an item's verdict into the outcome of its pytest test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ..grading import Grading
from ..items import Item, Rounds
from ..verdict import Status, Verdict
from .terminal import explain


def report(
    grading: Grading, item: Item, record_property: Callable[[str, object], None], rounds: Rounds | None = None
) -> Verdict:
    """Grade an item; skip the test where nothing could be measured, fail it with the explanation where it failed."""
    verdict = grading.grade(item, rounds).verdict
    record_property("status", str(verdict.status))
    record_property("points", f"{grading.item_score(item).points:g}")
    if verdict.status is Status.NOT_MEASURED:
        pytest.skip(verdict.message)
    if not verdict.passed:
        pytest.fail(explain(verdict, grading.reproduce(verdict), grading.files(item)), pytrace=False)
    return verdict

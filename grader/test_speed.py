"""The items that are timed on a GPU, one a benchmark of the rubric."""

from __future__ import annotations

from collections.abc import Callable

from pytest_benchmark.fixture import BenchmarkFixture

from grader.grading import Grading
from grader.items import Item
from grader.report.outcome import report

CHECKS = ("speed",)


def test_speed(
    item: Item, grading: Grading, record_property: Callable[[str, object], None], benchmark: BenchmarkFixture
) -> None:
    """The submission is as fast as the rubric asks for, against the baseline."""
    benchmark.group = f"{item.exercise} {item.benchmark}"

    def rounds(before: Callable[[], None], timed: Callable[[], None], after: Callable[[], None], number: int) -> None:
        benchmark.pedantic(  # type: ignore[no-untyped-call]
            timed, setup=before, teardown=after, rounds=number
        )

    verdict = report(grading, item, record_property, rounds)
    benchmark.extra_info.update({k: v for k, v in verdict.evidence.items() if isinstance(v, int | float | str)})

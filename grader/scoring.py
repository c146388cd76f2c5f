"""Turns verdicts into points. Pure: numbers and statuses in, points out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .verdict import Status

# These checks earn points only where others have passed in the same dtype: a fast wrong kernel is worth nothing.
PREREQUISITES: Mapping[str, tuple[str, ...]] = {
    "compiles": ("aligned",),
    "fused": ("aligned", "ragged"),
    "speed": ("aligned", "ragged"),
}


@dataclass(frozen=True)
class ItemScore:
    """The points of one item."""

    points: float
    max_points: float
    gradable: bool


@dataclass(frozen=True)
class Totals:
    """What a submission earned, of what could be graded here, of everything."""

    earned: float
    gradable: float
    maximum: float


def item_maximum(points: float, weights: Mapping[str, float], check: str, items: int) -> float:
    """The points of each of the `items` of a check: the exercise's points split by weight, then evenly."""
    return points * weights[check] / sum(weights.values()) / items


def score(status: Status, max_points: float, credit: float = 1.0) -> ItemScore:
    """Points of an item: all of them (times `credit`, 0 to 1) when passed, otherwise none.

    Items that could not be judged earn nothing and are not counted as gradable.
    """
    gradable = status not in (Status.NOT_MEASURED, Status.INFRASTRUCTURE_ERROR)
    earned = max_points * min(1.0, max(0.0, credit)) if status is Status.PASSED else 0.0
    return ItemScore(earned, max_points, gradable)


def total(items: Iterable[ItemScore]) -> Totals:
    """Sums, the same in whatever order the items are: thirds of points add up to whole ones."""
    scores = list(items)
    return Totals(
        _sum(item.points for item in scores),
        _sum(item.max_points for item in scores if item.gradable),
        _sum(item.max_points for item in scores),
    )


def _sum(points: Iterable[float]) -> float:
    return round(math.fsum(points), 9)

"""Statistics of paired timing rounds. Pure: seconds in, a speedup with its interval out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log

import numpy as np

RESAMPLES = 2000
# A wider interval means that rounds differed for some other reason than noise: no benefit of the doubt.
WIDEST_FOR_BENEFIT = 0.02
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Speedup:
    """The median of baseline time / submission time over paired rounds, with its bootstrap interval."""

    median: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval, as a share of the median."""
        return (self.high - self.low) / 2 / self.median


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return float(np.median(values))


def speedup(baseline_s: Sequence[float], submission_s: Sequence[float]) -> Speedup:
    """The speedup over rounds that were run in pairs. Raises ValueError without at least two pairs."""
    if len(baseline_s) != len(submission_s) or len(baseline_s) < 2:
        raise ValueError("a speedup needs at least two pairs of rounds")
    ratios = np.asarray(baseline_s) / np.asarray(submission_s)
    generator = np.random.default_rng(0)  # the same rounds give the same interval
    medians = np.median(generator.choice(ratios, (RESAMPLES, ratios.size)), axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, (tail, 1 - tail))
    return Speedup(float(np.median(ratios)), float(low), float(high))


def rounds_needed(pilot: Speedup, pilot_rounds: int, thresholds: Sequence[float], least: int, most: int,
                  wanted_half_width: float) -> int:  # fmt: skip
    """How many rounds to run after a pilot: until the interval is narrow, or clear of every threshold.

    The interval shrinks as the root of the number of rounds (two-stage sampling, Stein 1945).
    """
    distance = min(abs(pilot.median - threshold) / pilot.median for threshold in thresholds)
    wanted = max(wanted_half_width, distance / 2)
    return int(min(most, max(least, ceil(pilot_rounds * (pilot.half_width / wanted) ** 2))))


def credit(measured: Speedup, floor: float, target: float) -> tuple[float, bool]:
    """(credit between 0 and 1, whether the interval crosses a threshold).

    Credit grows with the logarithm of the speedup from `floor` to `target`. Where the interval crosses a threshold,
    the submission gets the benefit: it counts as having reached it.
    """
    counted = measured.median
    borderline = False
    for threshold in (floor, target):
        if measured.low < threshold <= measured.high:
            borderline = True
            if measured.half_width <= WIDEST_FOR_BENEFIT:
                counted = max(counted, threshold)
    if counted < floor:
        return 0.0, borderline
    return min(1.0, log(counted / floor) / log(target / floor)), borderline

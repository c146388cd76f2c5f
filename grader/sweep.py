"""Times over sizes: the cases of a sweep, and its results as CSV and as a picture. Runs nothing itself."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reference.exercise import DTYPES, Case, Exercise

from .hardware import Gpu
from .profiling import roofline

SIZES = (256, 512, 1024, 2048, 4096, 8192)
LEAST_SWEPT = 256  # a dimension of this or more is one that is swept


@dataclass(frozen=True)
class Point:
    """One player at one size; the time is None where the GPU's memory did not suffice."""

    size: int
    player: str
    time_us: float | None
    gb_s: float | None
    tflop_s: float | None
    percent_of_limit: float | None


def sweep_cases(case: Case, sizes: Sequence[int] = SIZES) -> list[Case]:
    """A benchmark's case with each of its large dimensions at each size; batch, heads and the like stay."""
    return [
        replace(
            case,
            tensors=tuple(
                replace(spec, shape=tuple(size if length >= LEAST_SWEPT else length for length in spec.shape))
                for spec in case.tensors
            ),
        )
        for size in sizes
    ]


def points(exercise: Exercise, cases: Sequence[Case], sizes: Sequence[int], player: str,
           times_us: Sequence[float | None], gpu: Gpu) -> list[Point]:  # fmt: skip
    """A player's times with the rates that follow from the exercise's cost."""
    found = []
    for case, size, time_us in zip(cases, sizes, times_us, strict=True):
        if time_us is None:
            found.append(Point(size, player, None, None, None, None))
            continue
        cost = exercise.cost(exercise.shapes(case), DTYPES[case.dtype].itemsize, **exercise.options_of(case))
        reached = roofline(cost, case.dtype, time_us, gpu)
        found.append(Point(size, player, time_us, reached.gb_s, reached.tflop_s, 100 * reached.share))
    return found


def write_csv(path: Path, swept: Sequence[Point]) -> None:
    """One line a point."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["size", "player", "time_us", "gb_s", "tflop_s", "percent_of_limit"])
        for point in swept:
            numbers = (point.time_us, point.gb_s, point.tflop_s, point.percent_of_limit)
            writer.writerow([point.size, point.player, *("" if each is None else f"{each:.4g}" for each in numbers)])


def write_plot(path: Path, title: str, swept: Sequence[Point]) -> None:
    """Two pictures side by side, over the size: the time, and the part of the GPU's limit. Needs matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for player in dict.fromkeys(point.player for point in swept):
        of_player = [point for point in swept if point.player == player and point.time_us is not None]
        sizes: list[Any] = [point.size for point in of_player]
        left.plot(sizes, [point.time_us for point in of_player], marker="o", label=player)
        right.plot(sizes, [point.percent_of_limit for point in of_player], marker="o", label=player)
    ticks = sorted({point.size for point in swept})
    for axes, label in ((left, "time of a call, µs"), (right, "of the GPU's limit, %")):
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_xlabel("size")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    left.set_yscale("log")
    right.set_ylim(bottom=0)
    left.legend()
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)

"""Benchmarking and profiling: the mean time of a call, and the kernels in it (Stanford CS336, lecture 6).

The right figure of `benchmark` is (t₁ + … + tₙ) / n over its n trials, with tᵢ from the beginning of the i-th call on
an idle device to the end of all its work. The calls before, the warm-ups, don't count.

Each check plants what tells one kind of mistake from the right way and leaves the others out: there is one trial where
sum, mean and minimum are to agree, and the workload waits for the device itself where nobody else has to.
"""

from __future__ import annotations

import random
import statistics
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

from .harness import HARNESS_CHECKS, Call, Figure, Harness, HarnessCase, Kernel

# So long that what the host adds is well within the 5 % allowed. Asking the judge what a call does takes a third of a
# millisecond on an H200's host; when it was asked about the NVTX ranges as well, one trial took up to 1.05 ms more.
SHORTEST_US, LONGEST_US = 40_000.0, 120_000.0
# What compiling a kernel for the first time takes the host.
COMPILING_US = (150_000.0, 300_000.0)
# The mean and what could be mistaken for it are kept this much away from each other.
APART = 0.1

KERNELS = ("planted_scores", "planted_softmax", "planted_product")
TUNING = "planted_tuning"


def _time_us(draw: random.Random) -> float:
    return round(draw.uniform(SHORTEST_US, LONGEST_US), 1)


def _steady(draw: random.Random, case: HarnessCase) -> tuple[Call, ...]:
    """Returns before its work is over; takes the same time in every call."""
    return (Call((Kernel(KERNELS[0], _time_us(draw)),)),) * case.calls


def _waiting(draw: random.Random, case: HarnessCase) -> tuple[Call, ...]:
    """The same, but waits for its work."""
    return tuple(replace(call, waits=True) for call in _steady(draw, case))


def _compiles(draw: random.Random, case: HarnessCase) -> tuple[Call, ...]:
    """The host works for long in each warm-up, or in the first call where there is none, and never again."""
    kernel = Kernel(KERNELS[0], _time_us(draw))
    slow = [Call((kernel,), draw.uniform(*COMPILING_US), waits=True) for _ in range(max(1, case.warmups))]
    return (*slow, *[Call((kernel,), waits=True)] * case.calls)[: case.calls]


def _jitter(draw: random.Random, case: HarnessCase) -> tuple[Call, ...]:
    """Every call takes another time, such that mean, minimum, maximum, median, first and last can be told apart."""
    while True:
        calls = tuple(Call((Kernel(KERNELS[0], _time_us(draw)),), waits=True) for _ in range(case.calls))
        times = [call.time_us for call in calls]
        figures = [statistics.fmean(times), min(times), max(times), statistics.median(times), times[0], times[-1]]
        if all(max(pair) > (1 + APART) * min(pair) for pair in combinations(figures, 2)):
            return calls


def _joined(draw: random.Random, case: HarnessCase) -> tuple[Call, ...]:
    return (Call((Kernel(KERNELS[0], _time_us(draw)),), where="joined"),) * case.calls


def _left(draw: random.Random, case: HarnessCase) -> tuple[Call, ...]:
    return (Call((Kernel(KERNELS[0], _time_us(draw)),), where="left"),) * case.calls


def _raises(draw: random.Random, case: HarnessCase) -> tuple[Call, ...]:
    """The first call raises, the others don't."""
    return (Call(raises=f"planted error {draw.randrange(10**6):06}"), *_waiting(draw, case)[1:])


def _kernels(draw: random.Random, case: HarnessCase) -> tuple[Call, ...]:
    """Three kernels, one of them launched three times; the first call launches another one beside them."""
    first, second, third = (_time_us(draw) for _ in KERNELS)
    launches = [Kernel(KERNELS[0], first), Kernel(KERNELS[1], second), *[Kernel(KERNELS[2], third)] * 3]
    draw.shuffle(launches)
    usual = Call(tuple(launches))
    return (Call((Kernel(TUNING, _time_us(draw)), *launches)), *[usual] * case.calls)[: case.calls]


_WORKLOADS: dict[str, Callable[[random.Random, HarnessCase], tuple[Call, ...]]] = {
    "steady": _steady,
    "waiting": _waiting,
    "compiles_first": _compiles,
    "jitter": _jitter,
    "side_stream_joined": _joined,
    "side_stream_left": _left,
    "raises_once": _raises,
    "three_kernels": _kernels,
}

# Per check: function, workload, warm-ups, trials.
_CASES: dict[str, tuple[tuple[str, str, int, int], ...]] = {
    "warmup": (("benchmark", "compiles_first", 1, 1), ("benchmark", "compiles_first", 4, 1),
               ("benchmark", "compiles_first", 0, 1)),
    "asynchronous": (("benchmark", "steady", 0, 1), ("benchmark", "steady", 3, 1)),
    "side_stream": (("benchmark", "side_stream_joined", 1, 1), ("benchmark", "side_stream_left", 1, 1)),
    "average": (("benchmark", "jitter", 0, 5), ("benchmark", "jitter", 0, 8)),
    "raises": (("benchmark", "raises_once", 2, 2), ("benchmark", "raises_once", 0, 3),
               ("profile", "raises_once", 2, 1), ("profile", "raises_once", 0, 1)),
    "profile": (("profile", "three_kernels", 2, 1), ("profile", "three_kernels", 0, 1)),
    "nvtx": (("benchmark", "waiting", 2, 3), ("profile", "three_kernels", 2, 1)),
}  # fmt: skip


def cases(check: str, seed: int) -> Sequence[HarnessCase]:
    """The listed cases; the seed draws their times."""
    return [HarnessCase("benchmarking", check, *facts, seed=seed + number)
            for number, facts in enumerate(_CASES[check])]  # fmt: skip


def calls(case: HarnessCase) -> tuple[Call, ...]:
    """What each call of the case's workload does."""
    draw = random.Random(zlib.crc32(str(case).encode()))  # noqa: S311 - no secret
    return _WORKLOADS[case.workload](draw, case)


EXERCISE = Harness(
    id="benchmarking",
    functions=("benchmark", "profile"),
    checks=HARNESS_CHECKS,
    cases=cases,
    calls=calls,
    ranges={"benchmark": ("warmup", "trial"), "profile": ("warmup", "profile")},
    mistakes={
        "seconds": Figure("it is in seconds, not milliseconds", lambda w, t: statistics.fmean(t) / 1e3),
        "microseconds": Figure("it is in microseconds, not milliseconds", lambda w, t: statistics.fmean(t) * 1e3),
        "nanoseconds": Figure("it is in nanoseconds, not milliseconds", lambda w, t: statistics.fmean(t) * 1e6),
        "sum": Figure("it is the sum of the trials, not their mean", lambda w, t: sum(t)),
        "best": Figure("it is the shortest trial, not the mean of all", lambda w, t: min(t)),
        "worst": Figure("it is the longest trial, not the mean of all", lambda w, t: max(t)),
        "median": Figure("it is the median of the trials, not their mean", lambda w, t: statistics.median(t)),
        "first": Figure("it is the first trial alone, not the mean of all", lambda w, t: t[0]),
        "last": Figure("it is the last trial alone, not the mean of all", lambda w, t: t[-1]),
        "warmups_averaged": Figure("it is the mean of the warm-ups and the trials; warm-ups don't count",
                                   lambda w, t: statistics.fmean([*w, *t])),
        "warmups_timed": Figure("it has the time of the warm-ups in it; start to time when they are over, on an idle "
                                "device: call torch.cuda.synchronize() before the first trial",
                                lambda w, t: (sum(w) + sum(t)) / len(t)),
    },
)  # fmt: skip

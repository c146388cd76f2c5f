"""The values an exercise in measuring is made of: planted workloads, what calling them takes, what is right to report.

Facts only, as in `exercise.py`. Students write two functions that call a workload `run()`:
`benchmark(run, num_warmups, num_trials)` gives the mean milliseconds of a trial, `profile(run, num_warmups)` the
kernels of one call as rows (kernel, calls, time in µs).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

HARNESS_CHECKS = ("warmup", "asynchronous", "side_stream", "average", "raises", "profile", "nvtx")

Where = Literal["current", "joined", "left"]


@dataclass(frozen=True)
class Kernel:
    """A kernel that keeps the device busy for a while."""

    name: str
    time_us: float


@dataclass(frozen=True)
class Call:
    """One call of a planted workload.

    - host_us: how long the host works before it launches, as when something is compiled.
    - kernels: what is launched, one after the other.
    - where: on the caller's stream; on a side stream that the caller's stream waits for (`joined`); or on one that
      nothing waits for (`left`).
    - waits: whether the call waits for its kernels, as a copy to the host does; otherwise it returns at once.
    - raises: the message of the exception that the call raises before anything else, "" where it raises none.
    """

    kernels: tuple[Kernel, ...] = ()
    host_us: float = 0.0
    where: Where = "current"
    waits: bool = False
    raises: str = ""

    @property
    def time_us(self) -> float:
        """From the beginning of the call to the end of its work, on a device that is idle."""
        return self.host_us + sum(kernel.time_us for kernel in self.kernels)


@dataclass(frozen=True)
class HarnessCase:
    """One call of a student's function on a planted workload. `str(case)` and `HarnessCase.parse` are inverse."""

    exercise: str
    check: str
    function: str
    workload: str
    warmups: int
    trials: int
    seed: int = 0

    def __str__(self) -> str:
        return (f"{self.exercise}/{self.check}/{self.function}:{self.workload}/{self.warmups}+{self.trials}/"
                f"{self.seed}")  # fmt: skip

    @classmethod
    def parse(cls, text: str) -> HarnessCase:
        """Read what `str(case)` wrote. Raises ValueError with the form that is wanted."""
        match = _CASE.fullmatch(text)
        if match is None:
            raise ValueError(f"case {text!r} is not of the form EXERCISE/CHECK/FUNCTION:WORKLOAD/WARMUPS+TRIALS/SEED "
                             "(copy it from the 'reproduce' line of a failure)")  # fmt: skip
        return cls(match[1], match[2], match[3], match[4], int(match[5]), int(match[6]), int(match[7]))

    @property
    def arguments(self) -> tuple[int, ...]:
        """What the function gets after `run`."""
        return (self.warmups, self.trials) if self.function == "benchmark" else (self.warmups,)

    @property
    def calls(self) -> int:
        """How often `run` is to be called."""
        return self.warmups + self.trials

    def describe(self) -> str:
        """The case in words: `benchmark(run, 1, 5), jitter, seed 7`."""
        arguments = ", ".join(map(str, ("run", *self.arguments)))
        return f"{self.function}({arguments}), {self.workload.replace('_', ' ')}, seed {self.seed}"


@dataclass(frozen=True)
class Figure:
    """A wrong way to make one figure of the calls: a figure equal to it shows which mistake was made.

    `of` takes the times of the warm-ups and of the trials in ms and gives a figure in ms.
    """

    says: str
    of: Callable[[Sequence[float], Sequence[float]], float]


@dataclass(frozen=True)
class Harness:
    """An exercise in measuring, declared in `reference/<id>.py` as `EXERCISE`.

    - functions: the functions that a submission's file has to have.
    - cases: for a check, the cases to judge, in order, given the seed of the run.
    - calls: what each call of the case's workload does, the warm-ups first; further calls repeat the last.
    - ranges: for a function, how the names of the NVTX ranges begin in which its warm-ups and its trials stand.
    - mistakes: by name, wrong figures of `benchmark`.
    """

    id: str
    functions: tuple[str, ...]
    checks: tuple[str, ...]
    cases: Callable[[str, int], Sequence[HarnessCase]]
    calls: Callable[[HarnessCase], tuple[Call, ...]]
    ranges: Mapping[str, tuple[str, str]]
    mistakes: Mapping[str, Figure]

    def takes(self, case: HarnessCase) -> bool:
        """Whether this exercise has such a case."""
        return any(
            (known.function, known.workload, known.warmups, known.trials)
            == (case.function, case.workload, case.warmups, case.trials)
            for known in (self.cases(case.check, 0) if case.check in self.checks else ())
        )


_CASE = re.compile(r"(\w+)/(\w+)/(\w+):(\w+)/(\d{1,4})\+(\d{1,4})/(\d{1,19})")

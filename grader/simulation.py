"""Trusted side: a device and a host clock in virtual time, for judging how a submission measures where there is no GPU.

The worker asks for every step (a launch, an event, a wait, a look at the clock) and the judge answers: what a call
takes, and when anything happened, is known here only. Pure: no process, no sleeping; the same steps take the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from reference.harness import Call

# What the host needs for a step. Small beside what the workloads take, as it is on a GPU.
LAUNCH_US = 4.0
EVENT_US = 1.0
WAIT_US = 5.0
QUERY_US = 20.0
CLOCK_US = 0.1
PROFILER_US = 500.0

MAX_KERNELS = 4096  # of one profile, so that the answer fits a message
MAX_MARKS = 256  # that come with one step
SIDE_STREAM = -1  # the workloads' own; streams of the submission count from 1, the default stream is 0

NOT_READY = "CUDA error: device not ready"
NOT_RECORDED = "Both events must be recorded before calculating elapsed time."
NOT_TIMED = "Both events must be created with argument 'enable_timing=True'."

Operation = Literal[
    "call", "clock", "sleep", "new_stream", "new_event", "record", "wait_event", "synchronize", "synchronize_stream",
    "synchronize_event", "query_stream", "query_event", "elapsed", "start_profiler", "stop_profiler", "marks",
]  # fmt: skip
ID = Annotated[int, Field(ge=-1, le=1 << 31)]


class Mark(BaseModel):
    """That the worker opened an NVTX range, or closed the innermost one of a domain."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    operation: Literal["push", "pop"]
    text: str = Field(default="", max_length=200)
    domain: str = Field(default="", max_length=200)


class Step(BaseModel):
    """What the worker asks for; `marks` are what it did before, `marks` as a step are no more than that."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    operation: Operation
    stream: ID = 0
    event: ID = 0
    end: ID = 0
    seconds: float = Field(default=0.0, ge=0, le=1e6)
    timing: bool = False
    marks: list[Mark] = Field(default_factory=list, max_length=MAX_MARKS)


@dataclass(frozen=True)
class Ran:
    """One kernel that ran, in virtual µs."""

    name: str
    begin_us: float
    end_us: float


@dataclass
class _Event:
    timing: bool
    at_us: float | None = None


@dataclass(frozen=True)
class Range:
    """An NVTX range: its name, and how many calls had begun when it was opened and when it was closed."""

    name: str
    first_call: int
    end_call: int | None

    @property
    def calls(self) -> int:
        """How many calls began in it."""
        return (self.end_call or self.first_call) - self.first_call

    def holds(self, call: int) -> bool:
        """Whether the call of this number, from 0, began in it."""
        return self.first_call <= call < (self.end_call or 0)


@dataclass
class Calls:
    """What the judge saw of a run: how often the workload was called, and in which NVTX ranges."""

    count: int = 0
    pops_without_push: int = 0
    ranges: list[Range] = field(default_factory=list)
    _open: list[tuple[str, int]] = field(default_factory=list)

    def push(self, name: str, domain: str) -> None:
        """Open a range."""
        self.ranges.append(Range(name, self.count, None))
        self._open.append((domain, len(self.ranges) - 1))

    def pop(self, domain: str) -> None:
        """Close the innermost range of a domain."""
        entry = next((entry for entry in reversed(self._open) if entry[0] == domain), None)
        if entry is None:
            self.pops_without_push += 1
            return
        self._open.remove(entry)
        number = entry[1]
        self.ranges[number] = replace(self.ranges[number], end_call=self.count)

    @property
    def left_open(self) -> list[str]:
        """The names of the ranges that nobody closed."""
        return [self.ranges[number].name for _, number in self._open]


class Device:
    """What both devices have: the calls of the workload and the NVTX ranges, as the worker asks for them."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._planned = calls
        self.calls = Calls()

    def next_call(self) -> Call:
        """What the call that begins now does. More calls than planned repeat the last."""
        self.calls.count += 1
        return self._planned[min(self.calls.count, len(self._planned)) - 1]

    def hear(self, marks: Sequence[Mark]) -> None:
        """Note the ranges that were opened and closed before a step."""
        for mark in marks:
            if mark.operation == "push":
                self.calls.push(mark.text, mark.domain)
            else:
                self.calls.pop(mark.domain)

    def answer(self, step: Step) -> dict[str, Any]:
        """The answer to a step that has nothing to do with the device. Raises KeyError for others."""
        if step.operation != "marks":
            raise KeyError(step.operation)
        return {}


class SimulatedDevice(Device):
    """Streams and events in virtual time. `answer` gives what the worker's call returns."""

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__(calls)
        self._now_us = 1e6
        self._busy_until_us = {SIDE_STREAM: 0.0, 0: 0.0}
        self._events: list[_Event] = []
        self._ran: list[Ran] = []
        self._profiled_from: int | None = None

    def answer(self, step: Step) -> dict[str, Any]:
        """Do a step and let the time that it takes pass. Raises KeyError for a stream or event that there is not."""
        method = getattr(self, f"_{step.operation}", None)
        return method(step) if method else super().answer(step)

    def _call(self, step: Step) -> dict[str, Any]:
        call = self.next_call()
        if call.raises:
            return {"raises": call.raises}
        self._now_us += call.host_us
        stream = step.stream if call.where == "current" else SIDE_STREAM
        if call.where != "current":
            self._wait_on_device(SIDE_STREAM, self._busy_until_us[step.stream])
        for kernel in call.kernels:
            self._now_us += LAUNCH_US
            begin = max(self._now_us, self._busy_until_us[stream])
            self._busy_until_us[stream] = begin + kernel.time_us
            self._ran.append(Ran(kernel.name, begin, begin + kernel.time_us))
        if call.where == "joined":
            self._wait_on_device(step.stream, self._busy_until_us[SIDE_STREAM])
        if call.waits:
            self._wait_on_host(self._busy_until_us[stream])
        return {"raises": ""}

    def _wait_on_device(self, stream: int, until_us: float) -> None:
        self._busy_until_us[stream] = max(self._busy_until_us[stream], until_us)

    def _wait_on_host(self, until_us: float) -> None:
        self._now_us = max(self._now_us, until_us) + WAIT_US

    def _clock(self, _: Step) -> dict[str, Any]:
        self._now_us += CLOCK_US
        return {"now_us": self._now_us}

    def _sleep(self, step: Step) -> dict[str, Any]:
        self._now_us += step.seconds * 1e6
        return {}

    def _new_stream(self, _: Step) -> dict[str, Any]:
        stream = max(self._busy_until_us) + 1
        self._busy_until_us[stream] = 0.0
        return {"stream": stream}

    def _new_event(self, step: Step) -> dict[str, Any]:
        self._events.append(_Event(step.timing))
        return {"event": len(self._events) - 1}

    def _event(self, number: int) -> _Event:
        if not 0 <= number < len(self._events):
            raise KeyError(f"event {number}")
        return self._events[number]

    def _record(self, step: Step) -> dict[str, Any]:
        self._now_us += EVENT_US
        self._event(step.event).at_us = max(self._now_us, self._busy_until_us[step.stream])
        return {}

    def _wait_event(self, step: Step) -> dict[str, Any]:
        self._now_us += EVENT_US
        self._wait_on_device(step.stream, self._event(step.event).at_us or 0.0)
        return {}

    def _synchronize(self, _: Step) -> dict[str, Any]:
        self._wait_on_host(max(self._busy_until_us.values()))
        return {}

    def _synchronize_stream(self, step: Step) -> dict[str, Any]:
        self._wait_on_host(self._busy_until_us[step.stream])
        return {}

    def _synchronize_event(self, step: Step) -> dict[str, Any]:
        self._wait_on_host(self._event(step.event).at_us or 0.0)
        return {}

    def _query_stream(self, step: Step) -> dict[str, Any]:
        self._now_us += QUERY_US
        return {"done": self._busy_until_us[step.stream] <= self._now_us}

    def _query_event(self, step: Step) -> dict[str, Any]:
        self._now_us += QUERY_US
        return {"done": (self._event(step.event).at_us or 0.0) <= self._now_us}

    def _elapsed(self, step: Step) -> dict[str, Any]:
        begin, end = self._event(step.event), self._event(step.end)
        if not (begin.timing and end.timing):
            return {"error": NOT_TIMED}
        if begin.at_us is None or end.at_us is None:
            return {"error": NOT_RECORDED}
        if max(begin.at_us, end.at_us) > self._now_us:
            return {"error": NOT_READY}
        return {"elapsed_us": end.at_us - begin.at_us}

    def _start_profiler(self, _: Step) -> dict[str, Any]:
        self._now_us += PROFILER_US
        self._profiled_from = len(self._ran)
        return {}

    def _stop_profiler(self, step: Step) -> dict[str, Any]:
        # torch.profiler waits for the device when it stops.
        self._synchronize(step)
        seen = self._ran[self._profiled_from :] if self._profiled_from is not None else []
        self._profiled_from = None
        return {"kernels": [[ran.name, ran.begin_us, ran.end_us] for ran in seen[:MAX_KERNELS]]}

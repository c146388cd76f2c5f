"""Untrusted side: streams, events, clocks and a profiler whose device is simulated by the judge.

Put in the place of torch's and Python's own before a submission is imported. Nothing here knows a time that the judge
has not just told.
"""

from __future__ import annotations

import contextlib
import threading
import time
import timeit
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import torch
from torch.autograd import profiler_util
from torch.profiler import ProfilerAction, ProfilerActivity

_line: Any = None  # to the judge; set by `install`
_util: Any = profiler_util  # has no types
_current = threading.local()


def _ask(operation: str, **facts: Any) -> dict[str, Any]:
    answer: dict[str, Any] = _line.ask(operation, **facts)
    return answer


class _Made:
    """A thing of the judge's device, made anew for each call of a function that uses it: it may be older."""

    def __init__(self, number: int | None = None) -> None:
        self._number = number
        self._made_in: int | None = None

    def _make(self) -> int:
        raise NotImplementedError

    @property
    def number(self) -> int:
        """What the judge calls it."""
        if self._number is None or self._made_in not in (None, _line.calls):
            self._number, self._made_in = self._make(), _line.calls
        return self._number


class Event(_Made):
    """As torch.cuda.Event."""

    def __init__(self, enable_timing: bool = False, *_: Any, **__: Any) -> None:
        super().__init__()
        self._timing = bool(enable_timing)

    def _make(self) -> int:
        return int(_ask("new_event", timing=self._timing).get("event", 0))

    def record(self, stream: Stream | None = None) -> None:
        """Have the stream note when it gets here."""
        _ask("record", event=self.number, stream=(stream or current_stream()).stream_id)

    def wait(self, stream: Stream | None = None) -> None:
        """Have the stream wait for this."""
        _ask("wait_event", event=self.number, stream=(stream or current_stream()).stream_id)

    def synchronize(self) -> None:
        """Wait for this."""
        _ask("synchronize_event", event=self.number)

    def query(self) -> bool:
        """Whether this has happened."""
        return bool(_ask("query_event", event=self.number).get("done", True))

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds until another event. Raises RuntimeError where either has not happened yet."""
        return float(_ask("elapsed", event=self.number, end=end_event.number).get("elapsed_us", 0.0)) / 1e3


class Stream(_Made):
    """As torch.cuda.Stream."""

    def __init__(self, *_: Any, stream_id: int | None = None, **__: Any) -> None:
        super().__init__(stream_id)
        self.device = torch.device("cuda", 0)

    def _make(self) -> int:
        return int(_ask("new_stream").get("stream", 0))

    @property
    def stream_id(self) -> int:
        """As torch's."""
        return self.number

    cuda_stream = stream_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.stream_id == self.stream_id

    def __hash__(self) -> int:
        return hash(self.stream_id)

    def __enter__(self) -> Self:
        self._before = current_stream()
        set_stream(self)
        return self

    def __exit__(self, *_: object) -> None:
        set_stream(self._before)

    def synchronize(self) -> None:
        """Wait for what this stream has to do."""
        _ask("synchronize_stream", stream=self.stream_id)

    def query(self) -> bool:
        """Whether this stream has nothing to do."""
        return bool(_ask("query_stream", stream=self.stream_id).get("done", True))

    def record_event(self, event: Event | None = None) -> Event:
        """An event for when this stream gets here."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Have this stream wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Have this stream wait for another."""
        self.wait_event(stream.record_event())


def current_stream(device: Any = None) -> Stream:
    """As torch.cuda.current_stream."""
    return getattr(_current, "stream", None) or default_stream()


def default_stream(device: Any = None) -> Stream:
    """As torch.cuda.default_stream."""
    return Stream(stream_id=0)


def set_stream(stream: Stream | None) -> None:
    """As torch.cuda.set_stream."""
    if stream is not None:
        _current.stream = stream


@contextlib.contextmanager
def use_stream(stream: Stream | None) -> Iterator[None]:
    """As torch.cuda.stream."""
    before = current_stream()
    set_stream(stream)
    try:
        yield
    finally:
        set_stream(before)


def synchronize(device: Any = None) -> None:
    """As torch.cuda.synchronize."""
    _ask("synchronize")


class Profiler:
    """As torch.profiler.profile: `events()` and `key_averages()` are torch's own, of events as on a GPU.

    Beside the kernels there are the runtime's calls and, where the CPU's activities are asked for, the operators that
    launched the kernels, which have the kernels' time as well.
    """

    def __init__(self, *, activities: Iterable[ProfilerActivity] | None = None,
                 schedule: Callable[[int], ProfilerAction] | None = None,
                 on_trace_ready: Callable[[Any], Any] | None = None, **options: Any) -> None:  # fmt: skip
        self._activities = set(activities or (ProfilerActivity.CPU, ProfilerActivity.CUDA))
        self._schedule = schedule
        self._on_trace_ready = on_trace_ready
        self._step = 0
        self._running = False
        self._events = _util.EventList([], use_device="cuda")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin, or do what the schedule says of step 0."""
        self._act()

    def step(self) -> None:
        """Go on to the next step of the schedule."""
        if self._schedule is not None:
            if self._schedule(self._step) == ProfilerAction.RECORD_AND_SAVE:
                self._end()
            self._step += 1
            self._act()

    def stop(self) -> None:
        """Wait for the device and end."""
        self._end()

    def _act(self) -> None:
        action = self._schedule(self._step) if self._schedule is not None else ProfilerAction.RECORD
        recording = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if recording and not self._running:
            _ask("start_profiler")
            self._running = True
        elif not recording:
            self._end()

    def _end(self) -> None:
        if self._running:
            self._running = False
            events = _events(_ask("stop_profiler").get("kernels", []), self._activities)
            self._events = _util.EventList(events, use_device="cuda")
            self._events._build_tree()
            if self._on_trace_ready is not None:
                self._on_trace_ready(self)

    def events(self) -> Any:
        """Every kernel, runtime call and operator."""
        return self._events

    def key_averages(self, *args: Any, **kwargs: Any) -> Any:
        """The events of each name added up."""
        return self.events().key_averages(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the simulated profiler has no {name!r}; use key_averages() or events()")


def _events(kernels: Sequence[Sequence[Any]], activities: set[ProfilerActivity]) -> list[Any]:
    events: list[Any] = []

    def add(name: str, thread: int, begin_us: float, end_us: float, device: Any) -> Any:
        event = _util.FunctionEvent(id=len(events), name=name, thread=thread, start_us=begin_us, end_us=end_us,
                              device_type=device, use_device="cuda", stack=[], input_shapes=[],
                              overload_name="")  # fmt: skip
        events.append(event)
        return event

    on_device = ProfilerActivity.CUDA in activities
    for number, (name, begin_us, end_us) in enumerate(kernels):
        launched_us = 20.0 * number  # the host's clock of operators; only their order matters
        if ProfilerActivity.CPU in activities:
            operator = add(f"planted::{name.removeprefix('planted_')}", 1, launched_us, launched_us + 10,
                           _util.DeviceType.CPU)  # fmt: skip
            if on_device:
                operator.append_kernel(name, 0, end_us - begin_us)
        if on_device:
            add("cudaLaunchKernel", 1, launched_us + 1, launched_us + 5, _util.DeviceType.CPU)
            add(name, 7, begin_us, end_us, _util.DeviceType.CUDA)
    if on_device:
        add("cudaDeviceSynchronize", 1, 20.0 * len(kernels), 20.0 * len(kernels) + 5, _util.DeviceType.CPU)
    return events


def _clock(unit_us: float, kind: type[int | float], real: Callable[[], float]) -> Callable[[], float]:
    def now() -> float:
        answer = _ask("clock")
        return kind(answer["now_us"] / unit_us) if answer else real()

    return now


def _sleep(seconds: float) -> None:
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    _ask("sleep", seconds=float(seconds))


def install(line: Any) -> None:
    """Replace torch's device and Python's clocks in this process."""
    global _line
    _line = line
    cuda: Any = torch.cuda
    cuda.is_available = lambda: True
    cuda.device_count = lambda: 1
    cuda.current_device = lambda: 0
    cuda.get_device_name = lambda device=None: "simulated device"
    cuda.init = cuda.empty_cache = lambda: None
    cuda.Event, cuda.Stream = Event, Stream
    cuda.current_stream, cuda.default_stream = current_stream, default_stream
    cuda.set_stream, cuda.stream, cuda.synchronize = set_stream, use_stream, synchronize
    accelerator: Any = torch.accelerator
    accelerator.synchronize, accelerator.current_stream = synchronize, current_stream
    accelerator.is_available = lambda: True
    profiler: Any = torch.profiler
    profiler.profile = Profiler
    python: Any = time
    for name in ("perf_counter", "monotonic", "time"):
        setattr(python, name, _clock(1e6, float, getattr(time, name)))
        setattr(python, f"{name}_ns", _clock(1e-3, int, getattr(time, f"{name}_ns")))
    python.sleep = _sleep
    timeit.default_timer = time.perf_counter

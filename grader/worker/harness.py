"""Untrusted side: calls a function that measures on a planted workload, and lets the judge see what it does.

What a call of the workload does is asked of the judge, one call at a time, so the judge counts the calls. NVTX ranges
are told to it with the next step, since asking takes a third of a millisecond that would be measured. Without a GPU the
device is the judge's too: `simulated.py` asks it for every step.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

import nvtx
import torch

from grader import protocol

MAX_ROWS = 64
MAX_MARKS = 64  # that wait for a step
MAX_NAME = 200


class PlantedError(Exception):
    """What a planted workload raises."""


class Line:
    """The line to the judge while a function is called: one step and its answer at a time."""

    def __init__(self, channel: socket.socket, decoder: protocol.Decoder) -> None:
        self._channel = channel
        self._decoder = decoder
        self._lock = threading.Lock()
        self._marks: list[dict[str, Any]] = []
        self.open = False
        self.calls = 0
        self.id = 0

    def ask(self, operation: str, **facts: Any) -> dict[str, Any]:
        """The judge's answer to a step; an empty one where no call is going on. Raises RuntimeError as CUDA would."""
        with self._lock:
            if not self.open:
                return {}
            marks, self._marks = self._marks, []
            step = {"kind": "step", "operation": operation, **facts, "marks": marks, "id": self.id}
            protocol.send(self._channel, step)
            received = protocol.receive(self._channel, self._decoder)
            if received is None:
                raise SystemExit  # the judge has given up
            answer = received[0]
            self.id = answer["id"]
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def mark(self, operation: str, domain: str, text: str = "") -> None:
        """Have the judge told, with the next step, that a range was opened or closed."""
        with self._lock:
            if self.open:
                self._marks.append({"operation": operation, "domain": domain[:MAX_NAME], "text": text[:MAX_NAME]})
        if len(self._marks) >= MAX_MARKS:
            self.ask("marks")

    def close(self) -> None:
        """Tell what the judge has not been told yet; nothing goes over the line any more."""
        if self._marks:
            self.ask("marks")
        with self._lock:  # a step of another thread gets its answer first
            self.open = False


def install(line: Line, *, simulated: bool) -> Callable[[], None]:
    """Put what tells the judge in the place of NVTX and, where it is simulated, of the device. Gives the workload."""
    _install_nvtx(line, pass_on=not simulated)
    if simulated:
        from grader.worker import simulated as device

        device.install(line)

        def run() -> None:
            _raise(line.ask("call", stream=device.current_stream().stream_id))

        return run
    from grader import planted

    planted.warm_up()

    def run_kernels() -> None:
        answer = line.ask("call")
        _raise(answer)
        if answer:  # none after the call that it was planted for
            planted.run(answer["kernels"], answer["host_us"], answer["where"], waits=answer["waits"])

    return run_kernels


def _raise(answer: dict[str, Any]) -> None:
    if answer.get("raises"):
        raise PlantedError(answer["raises"])


def call(entry: Callable[..., Any], run: Callable[[], None], line: Line, message: protocol.Message) -> dict[str, Any]:
    """What the function returns for the workload, in a form that the judge reads. Raises what it raises."""
    line.id, line.open, line.calls = message["id"], True, line.calls + 1
    try:
        return _describe(entry(run, *message["arguments"]))
    finally:
        line.close()


def _describe(value: Any) -> dict[str, Any]:
    kind = type(value)
    described: dict[str, Any] = {"type": f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")[:MAX_NAME]}
    if _is_number(value):
        with contextlib.suppress(OverflowError):
            described["number"] = float(value)
    elif isinstance(value, list | tuple):
        described["rows"] = [_row(row) for row in value[:MAX_ROWS]]
    return described


def _row(row: Any) -> list[Any] | None:
    """A row in plain types; None where it is no (name, number, number)."""
    if not isinstance(row, list | tuple) or len(row) != 3 or not isinstance(row[0], str):
        return None
    if not all(_is_number(number) and abs(number) < 1e15 for number in row[1:]):
        return None
    return [str(row[0])[:MAX_NAME], float(row[1]), float(row[2])]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _install_nvtx(line: Line, *, pass_on: bool) -> None:
    """Tell the judge of every range that either package opens or closes; `pass_on` does it for tools as well."""
    real_push, real_pop = nvtx.push_range, nvtx.pop_range
    real_start, real_end = nvtx.start_range, nvtx.end_range
    numbers = itertools.count()
    started: dict[int, Any] = {}

    def push(name: Any, domain: Any = None) -> int:
        line.mark("push", str(domain or ""), str(name))
        if pass_on:
            real_push(str(name), domain=domain)
        return 0

    def pop(domain: Any = None) -> int:
        if pass_on:
            real_pop(domain=domain)
        line.mark("pop", str(domain or ""))
        return 0

    def start(name: Any, domain: Any = None) -> int:
        number = next(numbers)
        line.mark("push", f"range {number}", str(name))  # a domain of its own: it may end in any order
        if pass_on:
            started[number] = real_start(str(name), domain=domain)
        return number

    def end(number: int) -> None:
        if pass_on and number in started:
            real_end(started.pop(number))
        line.mark("pop", f"range {number}")

    @contextlib.contextmanager
    def torch_range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
        push(msg.format(*args, **kwargs))
        try:
            yield
        finally:
            pop()

    class Annotate(contextlib.ContextDecorator):
        """As nvtx.annotate: a context manager, and a decorator that takes the function's name where none is given."""

        def __init__(self, message: Any = None, color: Any = None, domain: Any = None, category: Any = None,
                     payload: Any = None) -> None:  # fmt: skip
            self._name, self._domain = message, domain

        def __call__(self, function: Any) -> Any:
            @functools.wraps(function)
            def inner(*args: Any, **kwargs: Any) -> Any:
                with Annotate(self._name or function.__name__, domain=self._domain):
                    return function(*args, **kwargs)

            return inner

        def __enter__(self) -> Self:
            push(self._name or "", self._domain)
            return self

        def __exit__(self, *_: object) -> None:
            pop(self._domain)

    def push_range(message: Any = None, color: Any = None, domain: Any = None, *_: Any, **__: Any) -> int:
        return push(message or "", domain)

    def start_range(message: Any = None, color: Any = None, domain: Any = None, *_: Any, **__: Any) -> int:
        return start(message or "", domain)

    nvtx.push_range, nvtx.pop_range, nvtx.annotate = push_range, pop, Annotate
    nvtx.start_range, nvtx.end_range, nvtx.mark = start_range, end, lambda *_, **__: None
    of_torch: Any = torch.cuda.nvtx
    of_torch.range_push, of_torch.range_pop, of_torch.range = push, lambda: pop(), torch_range
    of_torch.range_start, of_torch.range_end, of_torch.mark = start, end, lambda *_: None

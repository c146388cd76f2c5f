"""What is seen of a run: a bar with rate and time left on a terminal, plain lines elsewhere. Trusted side."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from .schedule import Event

# Without a terminal, a line after each of the first submissions, then one in this many seconds.
QUIET_S = 15.0
_FIRST = 10


class Shown:
    """Shows events of `count` submissions."""

    def __init__(self, console: Console, count: int, title: str) -> None:
        self._console = console
        self._count = count
        self._done = 0
        self._faults = 0
        self._started = time.monotonic()
        self._last = 0.0
        self._bar: Progress | None = None
        if console.is_terminal and count:
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(), console=console,
            )  # fmt: skip
            self._task = self._bar.add_task(title, total=count, rate="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, event: Event) -> None:
        """Show an event."""
        name = event.job.submission if event.job else ""
        if event.kind == "quarantined":
            self._print(f"{event.slot} gets no more submissions: {event.message}")
        elif event.kind == "retried":
            self._print(f"{name}: the grader failed on {event.slot}, will be tried again: {event.message}")
        elif event.kind == "ended":
            self._done += 1
            self._faults += bool(event.message)
            if event.message:
                self._print(f"{name}: not graded, the grader failed: {event.message}")
            self._step(name, event)

    def _step(self, name: str, event: Event) -> None:
        elapsed = time.monotonic() - self._started
        rate = f"{60 * self._done / elapsed:.1f}/min"
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, rate=rate)
        elif self._done <= _FIRST or self._done == self._count or elapsed - self._last >= QUIET_S:
            self._last = elapsed
            left_s = elapsed / self._done * (self._count - self._done)
            earned = event.outcome.result.totals.earned if event.outcome and event.outcome.result else None
            points = "" if earned is None else f" {earned:.2f} points,"
            self._print(f"[{self._done}/{self._count}] {name}{points} {rate}, {_span(left_s)} left")

    def _print(self, text: str) -> None:
        (self._bar.console if self._bar else self._console).print(
            Text("".join(c if c.isprintable() else " " for c in text)), soft_wrap=True
        )


def _span(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 90 else f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"

"""Runs jobs on slots. A thread a slot, one coordinator, which alone hears of outcomes. Trusted side.

A job whose slot failed is tried again on another slot; a slot that does not pass its health check gets nothing more.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .slots import Job, Outcome, Slot

TRIES = 3


@dataclass
class _Waiting:
    job: Job
    tried: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Event:
    """Something that the coordinator is told: a job began, ended for good, failed and will be tried again, or a slot
    was given up (`job` None).
    """

    kind: str
    slot: str
    job: Job | None
    outcome: Outcome | None = None
    message: str = ""


class Schedule:
    """The jobs of one run. `run` returns when all are done, or when no slot is left."""

    def __init__(self, jobs: Sequence[Job], slots: Sequence[Slot]) -> None:
        self._slots = slots
        self._waiting = [_Waiting(job) for job in jobs]
        self._open = len(jobs)  # jobs that are not done for good
        self._alive = {slot.name for slot in slots}
        self._changed = threading.Condition()
        self._events: queue.SimpleQueue[Event | BaseException] = queue.SimpleQueue()

    def run(self, tell: Callable[[Event], None]) -> list[Job]:
        """Grade everything; `tell` is called in this thread. Returns the jobs that no slot was left for.

        Interrupted, it stops what runs and passes the interrupt on; what was told before stays told.
        """
        threads = [
            threading.Thread(target=self._serve, args=(slot,), name=slot.name, daemon=True) for slot in self._slots
        ]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads) or not self._events.empty():
                try:
                    event = self._events.get(timeout=0.2)
                except queue.Empty:
                    continue
                if isinstance(event, BaseException):
                    raise event
                tell(event)
        finally:
            with self._changed:
                self._open = 0
                self._changed.notify_all()
            for slot in self._slots:
                slot.stop()
            for thread in threads:
                thread.join()
        return [waiting.job for waiting in self._waiting]

    def _serve(self, slot: Slot) -> None:
        try:
            while (waiting := self._take(slot.name)) is not None:
                self._events.put(Event("began", slot.name, waiting.job))
                outcome = slot.run(waiting.job)
                ill = slot.fault() if outcome.fault else ""
                self._settle(waiting, slot.name, outcome, ill)
                if ill:
                    return
        except BaseException as error:  # noqa: BLE001 - raised again by the coordinator
            self._events.put(error)

    def _take(self, slot: str) -> _Waiting | None:
        """The next job for a slot: not one that failed on it, while another slot could take that."""
        with self._changed:
            while self._open:
                for waiting in self._waiting:
                    if slot not in waiting.tried or self._alive <= set(waiting.tried):
                        self._waiting.remove(waiting)
                        return waiting
                self._changed.wait()
            return None

    def _settle(self, waiting: _Waiting, slot: str, outcome: Outcome, ill: str) -> None:
        with self._changed:
            if ill:
                self._alive.discard(slot)
                self._events.put(Event("quarantined", slot, None, message=ill))
            else:
                waiting.tried.append(slot)  # the fault of an ill GPU does not count against the job
            if outcome.fault and (ill or len(waiting.tried) < TRIES) and self._open:
                self._waiting.append(waiting)
                self._events.put(Event("retried", slot, waiting.job, outcome, outcome.fault))
            elif self._open:
                self._open -= 1
                self._events.put(Event("ended", slot, waiting.job, outcome, outcome.fault))
            self._changed.notify_all()

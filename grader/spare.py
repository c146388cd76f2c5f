"""Trusted side: workers of one submission that have passed an item and wait for its next one.

CUDA contexts are made and taken down one at a time on a GPU, about half a second each: most items take less. On a CPU a
worker starts in milliseconds, and every item gets a fresh one.
"""

from __future__ import annotations

import threading

from .runner import Worker

WORTH_KEEPING = frozenset({"cuda"})  # device types on which starting a worker takes longer than most items


class SpareWorkers:
    """Idle workers, each with the file of one exercise imported. Close it when they may no longer hold the GPU."""

    def __init__(self) -> None:
        self._idle: list[tuple[str, Worker]] = []
        self._lock = threading.Lock()

    def take(self, exercise: str) -> Worker | None:
        """A worker for an exercise, or None. Then one of another exercise ends, as its place is needed."""
        with self._lock:
            for position, (imported, worker) in enumerate(self._idle):
                if imported == exercise:
                    del self._idle[position]
                    return worker
            unwanted = self._idle.pop(0) if self._idle else None
        if unwanted is not None:
            unwanted[1].close()
        return None

    def put(self, exercise: str, worker: Worker) -> None:
        """Keep a worker with which all was well."""
        with self._lock:
            self._idle.append((exercise, worker))

    def close(self) -> None:
        """End all that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, worker in idle:
            worker.close()

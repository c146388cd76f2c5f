"""Untrusted side: one timed round: the entry point on many inputs, one after the other, between two messages.

The clock that counts is the judge's and stands outside: it runs from the message `run` to the answer. What is here
only has to be the same for baseline and submission.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import nvtx
import torch

from grader.worker.operators import OperatorLog

Arguments = list[Any]


class Round:
    """A prepared round: `warm_up` calls on scratch inputs are done, the real inputs are ready."""

    def __init__(self, entry: Callable[..., Any], calls: list[Arguments], scratch: list[Arguments], name: str) -> None:
        self._entry = entry
        self._calls = calls
        self._name = name
        self.outputs: list[Any] = []
        self.recorded: tuple[Any, Any] | None = None  # what ran in the round, and its log of operators
        # Filling torch.empty with NaN, as in the other checks, would be booked on whoever allocates.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        torch._C._set_deterministic_algorithms(False)
        for arguments in scratch:
            entry(*arguments)
        torch.cuda.synchronize()
        # A collection in the middle of a round would be booked on whatever it interrupts. What survives is never looked
        # at again: torch and Triton are half a million objects, a tenth of a second each time.
        gc.collect()
        gc.freeze()
        gc.disable()

    def run(self) -> None:
        """Call the entry point on each input, keep what it returns, and wait for the device."""
        nvtx.push_range(self._name, domain="grader")
        entry, keep = self._entry, self.outputs.append
        for arguments in self._calls:
            keep(entry(*arguments))
        torch.cuda.synchronize()
        nvtx.pop_range(domain="grader")
        gc.enable()

    def run_recorded(self, recorder: Callable[[dict[str, Any]], AbstractContextManager[Any]]) -> None:
        """As `run`, and note operators and launches. Kernels tune themselves: no configuration is chosen for them."""
        with recorder({"config_index": None}) as record, OperatorLog() as log:
            self.run()
        self.recorded = (record, log)

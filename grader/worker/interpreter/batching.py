"""Runs programs of a launch together, as far as that is the same as one after the other (untrusted worker side).

Where programs branch differently, those that branch alike run on together, from their start. Where anything else stands
in the way, what they did is undone and the rest of the launch is left to the loop: faults, warnings and errors come
only from there.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Any

import numpy as np
from triton.runtime import interpreter

from . import state
from .programs import Diverged, Programs, Refused, TooWide
from .together import LANES, Together

Array = np.ndarray[Any, Any]
Sizes = tuple[int, int, int]


@dataclasses.dataclass
class Outcome:
    """What became of one launch: how many of its programs ran together, in how many runs, and what ended that."""

    kernel: str
    programs: int
    together: int = 0
    runs: int = 0
    reason: str = ""


_RETRIES = 2  # with the programs before one that faults

history: deque[Outcome] = deque(maxlen=state.KEPT_LAUNCHES)
# Both only save time: lanes a program of a kernel variant holds, and variants that can never run together.
_widths: dict[Any, int] = {}
_unsuited: dict[Any, str] = {}


def _variant(kernel: Any, values: dict[str, Any]) -> Any:
    return kernel, *(value for value in values.values() if isinstance(value, (bool, int, float, str)))


def run(session: state.Session, kernel: Any, sizes: Sizes, values: dict[str, Any]) -> int:
    """Run programs of a grid together; returns how many, from the first on, are done."""
    total = sizes[0] * sizes[1] * sizes[2]
    outcome = Outcome(kernel.__name__, total)
    history.append(outcome)
    if not session.options.batch or total < 2:
        outcome.reason = "one program" if total < 2 else "not asked for"
        return 0
    variant = _variant(kernel, values)
    if variant in _unsuited:
        outcome.reason = _unsuited[variant]
        return 0
    done, end, retries = 0, total, _RETRIES
    while end - done > 1:
        count = min(end - done, LANES // _widths.get(variant, 1))
        if count < 2:
            outcome.reason = "blocks so large that it doesn't pay"
            break
        batch = _Batch(session, sizes, outcome)
        try:
            batch.run(np.arange(done, done + count, dtype=np.int64))
        except TooWide as too_wide:
            _widths[variant] = max(too_wide.width, _widths.get(variant, 1) + 1)
            continue
        except Refused as refused:
            outcome.reason = refused.reason
            if refused.lasting:
                _unsuited[variant] = refused.reason
            if refused.program is None or not retries:
                break
            end, retries = refused.program, retries - 1
            continue
        done += count
    outcome.together = done
    return done


class _Batch:
    """Some programs of a launch that run together or, where they branch, in groups; if not all of them, then none."""

    def __init__(self, session: state.Session, sizes: Sizes, outcome: Outcome) -> None:
        self.session, self.sizes, self.outcome = session, sizes, outcome

    def run(self, index: Array) -> None:
        """Run the programs.

        Raises:
            Refused, TooWide: nothing has been done.

        """
        memory = self.session.memory
        memory.together = Together(memory)
        try:
            self._groups(index)
        except BaseException as problem:
            memory.together.undo()
            if isinstance(problem, Exception):
                # The student's or not, the loop will meet it again, at the right program.
                raise Refused(f"{type(problem).__name__} in the kernel") from problem
            raise
        finally:
            memory.together = memory.programs = None

    def _groups(self, index: Array) -> None:
        together = self.session.memory.together
        waiting = [index]
        runs = 0
        while waiting:
            # A run costs about as much as one program does in the loop.
            runs += 1
            if runs + len(waiting) - 1 > 1 + index.size // 2:
                raise Refused("too many different branches")
            group = waiting.pop()
            self.outcome.runs += 1
            mark = together.mark()
            try:
                self._one(group)
            except Diverged as diverged:
                together.back(mark)
                waiting.extend(group[diverged.keys == key] for key in np.unique(diverged.keys)[::-1])

    def _one(self, group: Array) -> None:
        memory = self.session.memory
        memory.programs = Programs(group, self.sizes)
        # Whatever asks for the program by another way than `tl.program_id` fails, and the loop answers it.
        self.session.program = interpreter.interpreter_builder.grid_idx = None
        self.session.body()

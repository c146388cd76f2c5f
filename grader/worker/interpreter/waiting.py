"""Tells a loop that waits for another program from one that merely never ends (untrusted worker side).

Programs run one after the other here, so what a loop waits for can't come, and the launch isn't measurable. A loop that
never ends is the student's, and runs until the judge's time limit ends it. They differ in whether another program of
the launch would change what the loop looks at.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from triton.runtime import interpreter

from . import state
from .memory import Key, Memory
from .programs import Diverged, Programs, Refused, TooWide
from .together import Together

# A loop that saw the same memory this often will see it for ever.
PATIENCE = 20_000
_PATIENCE_OF_TRIALS = 200
_TRIALS = 64


class WhileGuard:
    """Counts the rounds of a `while` loop in which it looked at memory and nothing changed."""

    def __init__(self) -> None:
        self.idle = 0
        self.version = -1
        self.progress = -1

    def __call__(self, condition: Any) -> Any:
        """Pass the loop's condition through.

        Raises:
            Unsupported: the loop waits for what another program does.

        """
        memory = state.current.session.memory
        waits = memory.version == self.version and memory.progress != self.progress
        self.version, self.progress = memory.version, memory.progress
        self.idle = self.idle + 1 if waits else 0
        if memory.together is not None:
            if self.idle > memory.together.patience:
                raise Refused("a loop in which nothing changes")
        elif self.idle == PATIENCE:
            memory.polled = set()
        elif self.idle > PATIENCE and memory.polled is not None:
            polled, memory.polled = memory.polled, None
            if another_changes(state.current.session, polled):
                state.unsupported("a loop that waits for another program")
        return condition


def another_changes(session: state.Session, polled: set[Key]) -> bool:
    """Whether a program other than the running one stores to these regions, or the launch has atomics on them."""
    memory = session.memory
    if polled & memory.atomic_keys:
        return True
    for key in polled & memory.writers.keys():
        if ((memory.writers[key] >= 0) & (memory.writers[key] != memory.program_index)).any():
            return True
    builder = interpreter.interpreter_builder
    sizes = builder.grid_dim
    count = sizes[0] * sizes[1] * sizes[2]
    running = memory.program_index
    before = session.program, builder.grid_idx
    try:
        # Programs before the running one have left their traces; of those after it the nearest are the likeliest.
        return any(
            _stores_to(session, index, polled) for index in range(running + 1, min(count, running + 1 + _TRIALS))
        )
    finally:
        session.program, builder.grid_idx = before


def _stores_to(session: state.Session, index: int, polled: set[Key]) -> bool:
    """Run one program as a trial, and undo it."""
    memory: Memory = session.memory
    memory.together = Together(memory, patience=_PATIENCE_OF_TRIALS)
    memory.programs = Programs(np.array([index]), interpreter.interpreter_builder.grid_dim)
    session.program = interpreter.interpreter_builder.grid_idx = None
    lasting = False
    try:
        # However the trial ends is the program's business when its turn comes; only what it stored counts.
        with suppress(Exception, Diverged, TooWide):
            session.body()
    except Refused as refused:
        lasting = refused.lasting  # atomics: how programs signal
    stores = bool(memory.together.stored & polled)
    memory.together.undo()
    memory.together = memory.programs = None
    return stores or lasting

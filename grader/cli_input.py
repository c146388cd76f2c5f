"""What the commands of `grader` share: how bad input ends them, and checks of what they are given."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence

import typer

import reference

from .errors import GraderError, InfrastructureError, SelectionError
from .rubric import Rubric

WIDTH = 130


@contextlib.contextmanager
def errors_end_the_command() -> Iterator[None]:
    """Bad input, and a fault of the grader, are one line on stderr and exit status 2."""
    try:
        yield
    except (GraderError, InfrastructureError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(2) from None


def known_exercises(rubric: Rubric, names: Sequence[str]) -> list[str]:
    """The named exercises in writing kernels, all of the rubric's where none is named. Raises SelectionError."""
    known = [name for name in rubric.exercises if name in reference.kernel_exercise_ids()]
    for name in names:
        if name not in known:
            raise SelectionError(f"{name}: the rubric has no such exercise with kernels; it has {', '.join(known)}")
    return list(names or known)

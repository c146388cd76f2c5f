"""What the commands of `grader` share: how bad input ends them, and checks of what they are given."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

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
    """The named exercises, all of the rubric's where none is named. Raises SelectionError for an unknown one."""
    for name in names:
        if name not in rubric.exercises:
            raise SelectionError(f"{name}: the rubric has no such exercise; it has {', '.join(rubric.exercises)}")
    return list(names or rubric.exercises)


def check_folder_of(path: Path | None) -> None:
    """Raise SelectionError where a file can't be written for want of its folder."""
    if path is not None and not path.absolute().parent.is_dir():
        raise SelectionError(f"{path}: there is no folder {path.absolute().parent}; make it first")

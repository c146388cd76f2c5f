"""How batch children are isolated: the one place that knows. Trusted side."""

from __future__ import annotations

from ..errors import GraderError
from ..result import Result
from ..sandbox import choose

_WHY = (
    "the submissions would run without a sandbox (level L0): `grader doctor` says what is missing; "
    "--unsafe grades all the same, for submissions that you trust as your own"
)


def child_options(*, unsafe: bool, gpu: bool) -> tuple[str, ...]:
    """The options of `pytest grader` that isolate it. Raises GraderError where nothing does and it is not allowed."""
    if choose("auto", gpu=gpu).level == "L0" and not unsafe:
        raise GraderError(_WHY)
    return ("--sandbox", "auto")


def accept(result: Result, *, unsafe: bool) -> None:
    """Raise GraderError for a result of a child that ran without a sandbox, where that is not allowed."""
    if result.environment.sandbox == "L0" and not unsafe:
        raise GraderError(_WHY)

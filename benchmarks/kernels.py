"""The right kernels there are of each exercise: the corpus's accepted ones and the solution."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import reference  # noqa: E402 - the repository must be on the path first
from grader.rubric import LoadedRubric, Rubric  # noqa: E402
from reference.exercise import VALUE_CHECKS  # noqa: E402


@dataclass(frozen=True)
class Kernel:
    """One right kernel: whose exercise it does, and where it is."""

    exercise: str
    path: Path

    def __str__(self) -> str:
        return f"{self.exercise}/{'solution' if self.path.parent.name == 'solutions' else self.path.stem}"


def right_kernels(exercise: str) -> Iterator[Kernel]:
    """Every right kernel of an exercise."""
    for path in sorted((ROOT / "tests/submissions" / exercise).glob("right_*.py")):
        yield Kernel(exercise, path)
    yield Kernel(exercise, ROOT / "reference/solutions" / f"{exercise}.py")


def checks_of_values(exercise: str) -> list[str]:
    """The checks that compare numbers."""
    return [check for check in (*VALUE_CHECKS, "gradient") if check in reference.load(exercise).checks]


def policy_for(loaded: LoadedRubric, kernel: Kernel, **cases: float) -> LoadedRubric:
    """The rubric for one kernel's exercise and file; `cases` replace limits."""
    own = loaded.rubric.exercises[kernel.exercise].model_copy(
        update={"file": kernel.path.name, "entry": kernel.exercise}
    )
    policy = loaded.rubric.cases.model_copy(update=cases)
    rubric = loaded.rubric.model_copy(update={"exercises": {kernel.exercise: own}, "cases": policy})
    assert isinstance(rubric, Rubric)
    return LoadedRubric(rubric, loaded.path, loaded.sha256)

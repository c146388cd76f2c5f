"""Grades a handout before it goes out: starters, solutions, and the handout's own tests, with nothing but its files."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import ReleaseError
from ..result import ItemResult, Result, load_result
from ..rubric import Rubric
from ..verdict import Status

_TIMEOUT_S = 7200
# Without what an editable install finds: a module that the handout lacks would come from the staff's repository.
_PYTEST = """\
import sys
sys.meta_path[:] = [each for each in sys.meta_path if not getattr(each, "__module__", "").startswith("__editable__")]
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def prove(folder: Path, rubric: Rubric, solutions: Path, say: Callable[[str], None]) -> None:
    """Raises ReleaseError with the first thing that isn't as promised. `solutions` has a file `<id>.py` an exercise."""
    say("running the handout's own tests")
    done = _pytest(folder, "tests", "-q")
    if done.returncode:
        raise ReleaseError(f"the handout's own tests fail:\n{done.stdout}{done.stderr}")
    say("grading the starters")
    starters = _graded(folder, folder / "student")
    for name, item in _items(starters):
        if item.status is not Status.NOT_IMPLEMENTED and (item.gradable or item.status is not Status.NOT_MEASURED):
            raise ReleaseError(f"the starter's {name} is {item.status}, not not_implemented: {item.message}")
    say("grading the solutions")
    with tempfile.TemporaryDirectory(prefix="grader-solutions-") as scratch:
        for exercise in rubric.exercises:
            path = Path(scratch, rubric.file_of(exercise))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((solutions / f"{exercise}.py").read_bytes())
        full = _graded(folder, Path(scratch))
    for name, item in _items(full):
        if item.status is not Status.PASSED and item.status is not Status.NOT_MEASURED:
            raise ReleaseError(f"the solution's {name} is {item.status}: {item.message}")
    totals = full.totals
    if not totals.gradable or totals.earned < totals.gradable - 1e-6:
        raise ReleaseError(f"the solutions earn {totals.earned:g} of {totals.gradable:g} points")
    say(f"the solutions earn {totals.earned:g} of the {totals.gradable:g} points that need no GPU")


def _items(result: Result) -> Iterator[tuple[str, ItemResult]]:
    for exercise, found in result.exercises.items():
        for item in found.items:
            yield "-".join(filter(None, (exercise, item.check, item.dtype))), item


def _graded(folder: Path, submission: Path) -> Result:
    with tempfile.TemporaryDirectory(prefix="grader-result-") as scratch:
        path = Path(scratch, "result.json")
        done = _pytest(folder, "grader", "--submission", str(submission), "--device", "cpu",
                       "--result", str(path))  # fmt: skip
        if done.returncode not in (0, 1):
            raise ReleaseError(f"the handout's grader ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return load_result(path)


def _pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Before what is installed: with -P and this, the handout's grader is the one imported.
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("GRADER_SEED", None)
    try:
        return subprocess.run(  # noqa: S603
            [sys.executable, "-P", "-c", _PYTEST, *arguments], cwd=folder, env=environment, capture_output=True,
            text=True, check=False, timeout=_TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ReleaseError(f"the handout's grader took more than {_TIMEOUT_S} s") from None

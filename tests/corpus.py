"""The corpus of submissions in `tests/submissions/`, with what the grader is expected to say of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from grader.grading import Grading
from grader.rubric import Cases, ExerciseRubric, LoadedRubric, Rubric, load_rubric
from grader.submission import Submission
from grader.verdict import Verdict
from grader.zygote import Zygote
from reference.exercise import DTYPES

Verdicts = dict[tuple[str, str], Verdict]

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / "submissions"


@dataclass(frozen=True)
class Entry:
    """One submission of the corpus: where it is, and per check and dtype the statuses that are right."""

    exercise: str
    name: str
    folder: Path
    file: str
    expected: dict[tuple[str, str], tuple[str, ...]]
    why: str

    def __str__(self) -> str:
        return f"{self.exercise}-{self.name}"


def entries() -> Iterator[Entry]:
    """Every submission that `expected.yaml` lists."""
    listed = yaml.safe_load((FOLDER / "expected.yaml").read_text())
    for exercise, names in listed.items():
        for name, facts in names.items():
            if exercise == "misbehaving":
                yield _entry(facts["exercise"], name, FOLDER / exercise / name, f"{facts['exercise']}.py", facts)
            else:
                yield _entry(exercise, name, FOLDER / exercise, f"{name}.py", facts)


def _entry(exercise: str, name: str, folder: Path, file: str, facts: dict) -> Entry:
    expected = {}
    for check in ("aligned", "ragged", "strided", "extreme"):
        status = facts.get(check, facts.get("all"))
        for dtype in DTYPES:
            of_dtype = status.get(dtype) if isinstance(status, dict) else status
            expected[check, dtype] = tuple(of_dtype) if isinstance(of_dtype, list) else (of_dtype,)
    return Entry(exercise, name, folder, file, expected, facts.get("why", ""))


def rubric_for(exercise: str, file: str, **cases: float) -> LoadedRubric:
    """The repository's rubric for one exercise, taken from another file name."""
    loaded = load_rubric(ROOT / "rubric.yaml")
    changed = loaded.rubric.model_copy(
        update={
            "exercises": {exercise: ExerciseRubric(points=10, file=file, entry=exercise)},
            "cases": Cases(**{**loaded.rubric.cases.model_dump(), **cases}),
        }
    )
    assert isinstance(changed, Rubric)
    return LoadedRubric(changed, loaded.path, loaded.sha256)


def grade(entry: Entry, zygote: Zygote, dtypes: Sequence[str] = tuple(DTYPES), **cases: float) -> Verdicts:
    """The items of an entry, judged: per check and dtype the verdict."""
    grading = Grading(rubric_for(entry.exercise, entry.file, **cases), Submission(entry.folder), zygote)
    return {(item.check, item.dtype): grading.grade(item).verdict for item in grading.items if item.dtype in dtypes}

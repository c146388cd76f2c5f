"""The corpus of submissions in `tests/submissions/`, with what the grader is expected to say of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

import reference
from grader.grading import Grading
from grader.judging import Selection
from grader.machine import Machine
from grader.rubric import Cases, LoadedRubric, Rubric, SourceRules, load_rubric
from grader.submission import Submission
from grader.verdict import Verdict
from reference.exercise import DTYPES, VALUE_CHECKS, Case, Exercise

Verdicts = dict[tuple[str, str], Verdict]

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / "submissions"
CHECKS = (*VALUE_CHECKS, "gradient", "compiles", "fused")  # all that need no GPU
SMALL_ELEMENTS = 8000


@dataclass(frozen=True)
class Entry:
    """One submission of the corpus: where it is, and per check and dtype the statuses that are right."""

    exercise: str
    name: str
    folder: Path
    file: str
    expected: dict[tuple[str, str], tuple[str, ...]]
    states_compiles: bool
    why: str
    pitfalls: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.why

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
    kernels = isinstance(reference.find(exercise), Exercise)
    states = {"compiles": "passed", "fused": facts.get("aligned"), **facts}
    expected = {}
    for check in [check for check in reference.find(exercise).checks if check != "speed"]:
        status = states.get(check) or facts["all"]
        for dtype in DTYPES if kernels else ("",):
            of_dtype = status.get(dtype) if isinstance(status, dict) else status
            expected[check, dtype] = tuple(of_dtype) if isinstance(of_dtype, list) else (of_dtype,)
    return Entry(exercise, name, folder, file, expected, "compiles" in facts, facts.get("why", ""),
                 tuple(facts.get("pitfall", "").split()))  # fmt: skip


def rubric_for(exercise: str, file: str, targets: Sequence[int] = (), **cases: float) -> LoadedRubric:
    """The repository's rubric for one exercise, taken from another file name; `targets` replace its own."""
    loaded = load_rubric(ROOT / "rubric.yaml")
    of_exercise = loaded.rubric.exercises[exercise]
    changed = loaded.rubric.model_copy(
        update={
            "exercises": {exercise: of_exercise.model_copy(update={"file": file, "entry": exercise})},
            "targets": tuple(targets) or loaded.rubric.targets,
            "source_rules": SourceRules(enabled=False),  # what is wrong must show without them
            "cases": Cases(**{**loaded.rubric.cases.model_dump(), **cases}),
        }
    )
    assert isinstance(changed, Rubric)
    return LoadedRubric(changed, loaded.path, loaded.sha256)


def grade(
    entry: Entry,
    machine: Machine,
    dtypes: Sequence[str] = tuple(DTYPES),
    checks: Sequence[str] = CHECKS,
    **cases: float,
) -> Verdicts:
    """The items of an entry in some dtypes and checks, judged: per check and dtype the verdict."""
    grading = Grading(rubric_for(entry.exercise, entry.file, **cases), Submission(entry.folder), machine)
    wanted = [item for item in grading.items if item.dtype in dtypes and item.check in checks]
    return {(item.check, item.dtype): grading.grade(item).verdict for item in wanted}


def compile_small_cases(entry: Entry, machine: Machine, dtype: str, target: int) -> Verdict | None:
    """The verdict on an entry's kernels as its small cases launch them, for one target; None where no case is small.

    Whole rows of 2¹⁶ elements in one block keep the compiler busy for seconds; what is expected to pass does without.
    """
    rubric = rubric_for(entry.exercise, entry.file, targets=[target])
    verdict = None
    for inputs in reference.load(entry.exercise).edge_cases("compiles"):
        case = Case(entry.exercise, "compiles", dtype, inputs.tensors, options=inputs.options)
        if case.numel <= SMALL_ELEMENTS:
            grading = Grading(rubric, Submission(entry.folder), machine, Selection(reproduce=str(case)))
            verdict = grading.grade(grading.items[0]).verdict
            if not verdict.passed:
                break
    return verdict

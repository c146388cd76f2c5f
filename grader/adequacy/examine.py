"""Trusted side: grades one mutant like a submission, up to the first item that it fails, and keeps what was found."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from ..grading import Grading
from ..items import Item, items_of
from ..machine import Machine
from ..rubric import LoadedRubric, Rubric
from ..submission import Submission
from ..verdict import Status
from .mutants import Mutant

# What finds most faults soonest comes first; the compiler takes seconds and rarely finds what the values don't.
CHECK_ORDER = ("ragged", "strided", "extreme", "gradient", "aligned", "fused", "compiles")
DTYPE_ORDER = ("float16", "float32", "bfloat16")
CASE_TIMEOUT_S = 10.0
# Packages of the grader whose code has no part in a verdict; that the mutants are others shows in their sources.
_NOT_JUDGING = ("report", "batch", "adequacy")


@dataclass(frozen=True)
class Finding:
    """What grading a mutant showed.

    `cases` counts those judged in the item that caught it, `cases_in_all` those of the items before too.
    """

    caught: bool
    check: str = ""
    dtype: str = ""
    status: str = ""
    message: str = ""
    cases: int = 0
    cases_in_all: int = 0
    seconds: float = 0.0
    fault_of_the_grader: str = ""


def policy_for(loaded: LoadedRubric, exercise: str, **cases: float) -> LoadedRubric:
    """The rubric for one exercise, whose failures are not shrunk."""
    own = loaded.rubric.exercises[exercise].model_copy(update={"file": f"{exercise}.py"})
    timeout = min(loaded.rubric.cases.case_timeout_s, CASE_TIMEOUT_S)
    policy = loaded.rubric.cases.model_copy(update={"shrink_s": 0.0, "case_timeout_s": timeout, **cases})
    rubric = loaded.rubric.model_copy(update={"exercises": {exercise: own}, "cases": policy})
    assert isinstance(rubric, Rubric)
    return LoadedRubric(rubric, loaded.path, loaded.sha256)


def examine(mutant: Mutant, loaded: LoadedRubric, machine: Machine) -> Finding:
    """Grade a mutant until an item fails: the listed cases of every check in one dtype first, then everything."""
    begun = time.monotonic()
    cases = 0
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        (Path(folder) / f"{mutant.exercise}.py").write_text(mutant.source)
        for policy, item in _items(loaded, mutant.exercise):
            grading = Grading(policy, Submission(Path(folder)), machine)
            verdict = grading.grade(item).verdict
            grading.close()
            own = int(verdict.evidence.get("cases", 0))
            cases += own
            seconds = round(time.monotonic() - begun, 2)
            if verdict.status is Status.INFRASTRUCTURE_ERROR:
                return Finding(caught=False, check=item.check, dtype=item.dtype, cases_in_all=cases, seconds=seconds,
                               fault_of_the_grader=verdict.message)  # fmt: skip
            if not verdict.passed and verdict.gradable:
                return Finding(True, item.check, item.dtype, str(verdict.status), verdict.message, own, cases, seconds)
    return Finding(caught=False, cases_in_all=cases, seconds=round(time.monotonic() - begun, 2))


def _items(loaded: LoadedRubric, exercise: str) -> Iterator[tuple[LoadedRubric, Item]]:
    listed_only, everything = policy_for(loaded, exercise, generated=0), policy_for(loaded, exercise)
    items = [item for item in items_of(everything.rubric) if item.check != "speed"]
    items.sort(key=lambda item: (item.check == "compiles", DTYPE_ORDER.index(item.dtype), _check_rank(item.check)))
    first = items[0].dtype
    quick = [item for item in items if item.dtype == first and item.check not in ("fused", "compiles")]
    yield from ((listed_only, item) for item in quick)
    yield from ((everything, item) for item in items)


def _check_rank(check: str) -> int:
    return CHECK_ORDER.index(check) if check in CHECK_ORDER else len(CHECK_ORDER)


class Cache:
    """Findings of earlier runs in a folder, by everything that they depend on."""

    def __init__(self, folder: Path, root: Path, loaded: LoadedRubric) -> None:
        self._folder = folder
        self._root = root
        self._loaded = loaded
        self._parts: dict[str, str] = {}

    def get(self, mutant: Mutant) -> Finding | None:
        """The finding on this mutant under the same rubric, reference and grader."""
        path = self._path(mutant)
        return Finding(**json.loads(path.read_text())) if path.is_file() else None

    def put(self, mutant: Mutant, finding: Finding) -> None:
        """Keep a finding; faults of the grader are not kept."""
        if not finding.fault_of_the_grader:
            path = self._path(mutant)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(asdict(finding)))

    def _path(self, mutant: Mutant) -> Path:
        if mutant.exercise not in self._parts:
            self._parts[mutant.exercise] = self._state(mutant.exercise)
        name = hashlib.sha256((self._parts[mutant.exercise] + mutant.source).encode()).hexdigest()
        return self._folder / f"{name}.json"

    def _state(self, exercise: str) -> str:
        """A hash of the policy, of what is right, and of the code that judges."""
        digest = hashlib.sha256(policy_for(self._loaded, exercise).rubric.model_dump_json().encode())
        others = {f"{name}.py" for name in self._loaded.rubric.exercises if name != exercise}
        reference = [path for path in (self._root / "reference").rglob("*.py") if path.name not in others]
        judging = [path for path in (self._root / "grader").rglob("*.py") if path.parent.name not in _NOT_JUDGING]
        for path in sorted(
            [path for path in reference if path.parent.name != "solutions"] + [Path(__file__), *judging]
        ):
            digest.update(path.read_bytes())
        return digest.hexdigest()

"""One grading of one submission: its items, what has been found so far, and the result made of it."""

from __future__ import annotations

import shlex
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import reference
from reference.exercise import DTYPES, Case

from . import result as results
from .compiles import judge_compiles
from .errors import InfrastructureError, SelectionError
from .fused import judge_fused
from .judge import Caller, Target, shapes
from .rubric import LoadedRubric
from .scoring import PREREQUISITES, ItemScore, item_maxima, score, total
from .search import Outcome, Search
from .submission import Submission
from .verdict import Status, Verdict
from .zygote import Zygote


@dataclass(frozen=True)
class Item:
    """What is judged and scored as one: a check of an exercise in a dtype."""

    exercise: str
    check: str
    dtype: str
    max_points: float

    def __str__(self) -> str:
        return f"{self.exercise}-{self.check}-{self.dtype}"


@dataclass(frozen=True)
class Judged:
    """An item's verdict and how long it took."""

    verdict: Verdict
    seconds: float


@dataclass(frozen=True)
class Selection:
    """What to grade of a rubric, and how: from the command line."""

    exercises: Sequence[str] = ()
    seed: int | None = None
    reproduce: str | None = None
    command: Sequence[str] = ("pytest", "grader")


class Grading:
    """Grades one submission with the workers of a zygote. Raises GraderError at once where an input is bad."""

    def __init__(
        self, loaded: LoadedRubric, submission: Submission, zygote: Zygote, selection: Selection | None = None
    ) -> None:
        selection = selection or Selection()
        self.rubric = loaded.rubric
        self.submission = submission
        self.seed = self.rubric.seed if selection.seed is None else selection.seed
        self.case = _parse_case(selection.reproduce) if selection.reproduce else None
        self.items = self._select(selection)
        self._loaded = loaded
        self._command = selection.command
        self._hashes = submission.hashes({name: self.rubric.file_of(name) for name in {i.exercise for i in self.items}})
        self._judged: dict[Item, Judged] = {}
        self._started = _now()
        self._zygote = zygote
        self._compiling = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compiling")
        self._compiled: dict[Item, Future[Judged]] = {}

    def _select(self, selection: Selection) -> list[Item]:
        for name in selection.exercises:
            if name not in self.rubric.exercises:
                raise SelectionError(
                    f"--exercise {name}: the rubric has no such exercise; it has {', '.join(self.rubric.exercises)}"
                )
        items = []
        for name, exercise in self.rubric.exercises.items():
            weights, dtypes = self.rubric.weights_of(name), self.rubric.dtypes_of(name)
            for (check, dtype), most in item_maxima(exercise.points, weights, dtypes).items():
                items.append(Item(name, check, dtype, most))
        if self.case is not None:
            wanted = (self.case.exercise, self.case.check, self.case.dtype)
            items = [item for item in items if (item.exercise, item.check, item.dtype) == wanted]
            if not items:
                raise SelectionError(f"--reproduce: the rubric grades no {'-'.join(wanted)}")
        return [item for item in items if not selection.exercises or item.exercise in selection.exercises]

    def start(self) -> None:
        """Begin to compile, beside everything else: the compiler needs none of the other items."""
        for item in self.items:
            if item.check == "compiles" and self.case is None:
                self._compiled[item] = self._compiling.submit(self._judge, item)

    def close(self) -> None:
        """Give up what is still to be compiled. Close the zygote first: it ends what is being compiled."""
        self._compiling.shutdown(cancel_futures=True)

    def grade(self, item: Item) -> Judged:
        """Judge an item. A fault of the grader is tried once more, then kept as `infrastructure_error`."""
        judged = self._compiled[item].result() if item in self._compiled else self._judge(item)
        self._judged[item] = judged
        return judged

    def _judge(self, item: Item) -> Judged:
        begun = time.monotonic()
        for attempt in (1, 2):
            try:
                outcome = self._search(item)
            except InfrastructureError as error:
                fault = Verdict(Status.INFRASTRUCTURE_ERROR, str(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is not the student's
                fault = Verdict(
                    Status.INFRASTRUCTURE_ERROR,
                    f"the grader failed: {type(error).__name__}: {error}",
                    evidence={"traceback": traceback.format_exc()},
                )
            else:
                evidence = {**outcome.verdict.evidence, "cases": outcome.cases, "attempt": attempt}
                if outcome.cut_short:
                    evidence["cut_short"] = f"stopped drawing cases after {self.rubric.cases.budget_s:g} s"
                found = outcome.verdict
                verdict = Verdict(found.status, found.message, found.hint, found.case, evidence)
                break
        else:
            verdict = fault
        return Judged(verdict, time.monotonic() - begun)

    def _search(self, item: Item) -> Outcome:
        exercise = reference.load(item.exercise)
        target = Target(
            exercise,
            self.submission.sources(self.rubric.file_of(item.exercise)),
            self.rubric.file_of(item.exercise),
            self.rubric.entry_of(item.exercise),
            tf32=self.rubric.tf32_of(item.exercise),
            case_timeout_s=self.rubric.cases.case_timeout_s,
        )
        with Caller(self._zygote, target) as caller:

            def verdict_on(case: Case) -> Verdict:
                length = exercise.reduction_length(shapes(case))
                return caller.judge(case, self.rubric.tolerance_of(item.exercise, item.dtype, length))

            listed = [
                Case(item.exercise, item.check, item.dtype, inputs.tensors, inputs.seed, inputs.options)
                for inputs in exercise.edge_cases(item.check)
            ]
            cases = [self.case] if self.case is not None else listed
            if item.check == "compiles":
                return judge_compiles(caller, cases, self.rubric.targets)
            if item.check == "fused":
                return judge_fused(verdict_on, exercise, cases, self.rubric.exercises[item.exercise].fused)
            if self.case is not None:
                return Outcome(verdict_on(self.case), 1, cut_short=False)
            return Search(verdict_on, exercise, item.check, item.dtype, self.rubric.cases, self.seed).run()

    def reproduce(self, verdict: Verdict) -> str:
        """The command that judges the verdict's case again, "" where there is none."""
        return shlex.join([*self._command, "--reproduce", verdict.case]) if verdict.case else ""

    def item_score(self, item: Item) -> ItemScore:
        """The points of an item; one that was not reached counts as not measured."""
        judged = self._judged.get(item)
        scored = score(judged.verdict.status if judged else Status.NOT_MEASURED, item.max_points)
        return scored if not self.missing(item) else replace(scored, points=0.0)

    def missing(self, item: Item) -> list[str]:
        """The checks of the same exercise and dtype that have to pass before this item earns points, and did not."""
        of_dtype = {
            other.check: self._judged[other].verdict.passed
            for other in self.items
            if (other.exercise, other.dtype) == (item.exercise, item.dtype) and other in self._judged
        }
        return [check for check in PREREQUISITES.get(item.check, ()) if not of_dtype.get(check, True)]

    def result(self) -> results.Result:
        """Everything found so far."""
        by_exercise: dict[str, list[results.ItemResult]] = {}
        for item in self.items:
            by_exercise.setdefault(item.exercise, []).append(self._item_result(item))
        totals = total(self.item_score(item) for item in self.items)
        return results.Result(
            submission=results.SubmissionFacts(id=self.submission.path.resolve().name, files=self._hashes),
            environment=self._environment(),
            exercises={name: results.ExerciseResult(items=items) for name, items in by_exercise.items()},
            totals=results.TotalsResult(earned=totals.earned, gradable=totals.gradable, maximum=totals.maximum),
            started=self._started,
            finished=_now(),
        )

    def _item_result(self, item: Item) -> results.ItemResult:
        judged = self._judged.get(item, Judged(Verdict(Status.NOT_MEASURED, "the run ended before this item"), 0.0))
        scored = self.item_score(item)
        verdict = judged.verdict
        return results.ItemResult(
            check=item.check,
            dtype=item.dtype,
            status=verdict.status,
            points=scored.points,
            max_points=scored.max_points,
            gradable=scored.gradable,
            message=verdict.message or self._why_no_points(item),
            hint=verdict.hint,
            reproduce=self.reproduce(verdict),
            case=verdict.case,
            evidence=verdict.evidence,
            seconds=round(judged.seconds, 3),
        )

    def _why_no_points(self, item: Item) -> str:
        missing = self.missing(item)
        return f"no points before {' and '.join(missing)} pass in {item.dtype}" if missing else ""

    def _environment(self) -> results.Environment:
        versions = self._zygote.versions
        return results.Environment(
            device="cpu",
            torch=versions.get("torch", ""),
            triton=versions.get("triton", ""),
            python=versions.get("python", ""),
            sandbox="L0",
            mode="interpreter",
            seed=self.seed,
            rubric_sha256=self._loaded.sha256,
            grader=_grader_version(),
        )


def _parse_case(text: str) -> Case:
    try:
        case = Case.parse(text)
        exercise = reference.load(case.exercise)
    except (ValueError, KeyError) as error:
        raise SelectionError(f"--reproduce: {error.args[0]}") from None
    if tuple(spec.name for spec in case.tensors) != exercise.arguments or case.dtype not in DTYPES:
        raise SelectionError(f"--reproduce: {case.exercise} takes {', '.join(exercise.arguments)}")
    return case


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _grader_version() -> str:
    try:
        return version("kernel-grader")
    except PackageNotFoundError:
        return "unknown"


def default_root() -> Path:
    """The folder that holds `grader/`, `student/` and `rubric.yaml`."""
    return Path(__file__).parent.parent

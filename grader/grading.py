"""One grading of one submission: its items, what has been found so far, and the result made of it."""

from __future__ import annotations

import os
import shlex
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import reference
from reference.exercise import Case
from reference.harness import Harness, HarnessCase

from . import result as results
from .errors import InfrastructureError, SelectionError
from .items import Item, Rounds, items_of
from .judging import Judging, Selection
from .machine import Machine
from .report.attachments import SUFFIXES
from .rubric import LoadedRubric
from .scoring import PREREQUISITES, ItemScore, score, total
from .submission import Submission
from .threads import guard_ast_parse
from .verdict import Status, Verdict
from .versions import installed_version


@dataclass(frozen=True)
class Judged:
    """An item's verdict and how long it took."""

    verdict: Verdict
    seconds: float


class Grading:
    """Grades one submission with the workers of a machine. Raises GraderError at once where an input is bad."""

    def __init__(
        self, loaded: LoadedRubric, submission: Submission, machine: Machine, selection: Selection | None = None
    ) -> None:
        selection = selection or Selection()
        self.rubric = loaded.rubric
        self.submission = submission
        self.seed = self.rubric.seed if selection.seed is None else selection.seed
        self.case = _parse_case(selection.reproduce) if selection.reproduce else None
        self.items = items_of(self.rubric, selection.exercises)
        if self.case is not None:
            dtype = self.case.dtype if isinstance(self.case, Case) else ""
            wanted = (self.case.exercise, self.case.check, dtype)
            self.items = [item for item in self.items if (item.exercise, item.check, item.dtype) == wanted]
            if not self.items:
                raise SelectionError(f"--reproduce: the rubric grades no {'-'.join(filter(None, wanted))}")
        self._loaded = loaded
        self._command = selection.command
        self._judging = Judging(loaded.rubric, submission, machine, self.items, self.seed, self.case, selection)
        self._judged: dict[Item, Judged] = {}
        self._started = _now()
        self._machine = machine
        self._pool = ThreadPoolExecutor(max_workers=_jobs(), thread_name_prefix="judge")
        self._ahead: dict[Item, Future[Judged]] = {}

    def start(self, items: Sequence[Item]) -> None:
        """Begin to judge all of these that are not timed, a few at a time; `grade` waits for what it wants."""
        guard_ast_parse()
        if any(item.check == "speed" for item in items) and (timed := self._judging.timed_cases()):
            self._machine.peers(timed)
        for item in items:
            if not self._judging.is_timed(item):
                self._ahead[item] = self._pool.submit(self._judge, item)

    def close(self) -> None:
        """Give up what is not judged yet. Close the machine first: it ends the workers that are waited for."""
        self._pool.shutdown(cancel_futures=True)
        self._judging.close()

    def grade(self, item: Item, rounds: Rounds | None = None) -> Judged:
        """Judge an item; `rounds` runs the rounds of a timed one, for which all else must be over."""
        if self._judging.is_timed(item):
            wait(self._ahead.values())
        judged = self._ahead[item].result() if item in self._ahead else self._judge(item, rounds)
        self._judged[item] = judged
        return judged

    def _judge(self, item: Item, rounds: Rounds | None = None) -> Judged:
        """The verdict on an item. A fault of the grader is tried once more, then kept as `infrastructure_error`."""
        begun = time.monotonic()
        for attempt in (1, 2):
            try:
                outcome = self._judging.outcome(item, rounds, self.missing(item))
            except InfrastructureError as error:
                fault = Verdict(Status.INFRASTRUCTURE_ERROR, str(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is not the student's
                fault = Verdict(
                    Status.INFRASTRUCTURE_ERROR,
                    f"the grader failed: {type(error).__name__}: {error}",
                    evidence={"traceback": traceback.format_exc()},
                )
            else:
                found = outcome.verdict
                evidence = {**found.evidence, "cases": outcome.cases, "attempt": attempt}
                if outcome.cut_short:
                    evidence["cut_short"] = f"stopped drawing cases after {self.rubric.cases.budget_s:g} s"
                verdict = replace(found, evidence=evidence)
                break
        else:
            verdict = fault
        return Judged(verdict, time.monotonic() - begun)

    def files(self, item: Item) -> list[Path]:
        """The paths of an item's attachments."""
        judged = self._judged.get(item)
        attached = judged.verdict.attachments if judged else {}
        return [self._judging.path(item, suffix) for suffix in SUFFIXES if suffix in attached]

    def attachments(self) -> dict[str, Mapping[str, str]]:
        """The texts of all attachments, by item and suffix."""
        return {str(item): judged.verdict.attachments for item, judged in self._judged.items() if item.check != "speed"}

    def reproduce(self, verdict: Verdict) -> str:
        """The command that judges the verdict's case again, "" where there is none."""
        return shlex.join([*self._command, "--reproduce", verdict.case]) if verdict.case else ""

    def item_score(self, item: Item) -> ItemScore:
        """The points of an item; one that was not reached counts as not measured."""
        judged = self._judged.get(item)
        verdict = judged.verdict if judged else Verdict(Status.NOT_MEASURED)
        scored = score(verdict.status, item.max_points, verdict.evidence.get("credit", 1.0))
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
            submission=results.SubmissionFacts(
                id=self.submission.path.resolve().name,
                files={name: sources.sha256 for name, sources in self._judging.sources.items() if sources is not None},
            ),
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
            benchmark=str(item.benchmark or ""),
            dtype=item.dtype,
            status=verdict.status,
            points=scored.points,
            max_points=scored.max_points,
            gradable=scored.gradable,
            message=verdict.message or self._why_no_points(item),
            hint=verdict.hint,
            reproduce=self.reproduce(verdict),
            case=verdict.case,
            pitfall=verdict.pitfall,
            pictures=[f"{path.parent.name}/{path.name}" for path in self.files(item) if path.suffix == ".svg"],
            script=next((f"{path.parent.name}/{path.name}" for path in self.files(item) if path.suffix == ".py"), ""),
            evidence=verdict.evidence,
            staff=verdict.staff,
            seconds=round(judged.seconds, 3),
        )

    def _why_no_points(self, item: Item) -> str:
        missing = self.missing(item)
        return f"no points before {' and '.join(missing)} pass in {item.dtype}" if missing else ""

    def _environment(self) -> results.Environment:
        machine = self._machine
        versions = machine.values.versions
        return results.Environment(
            device=machine.gpu_name() or "cpu",
            driver=machine.driver(),
            torch=versions.get("torch", ""),
            triton=versions.get("triton", ""),
            python=versions.get("python", ""),
            sandbox=machine.sandbox.level,
            mode="gpu" if machine.has_gpu else "interpreter",
            seed=self.seed,
            rubric_sha256=self._loaded.sha256,
            grader=installed_version("kernel-grader", "unknown"),
        )


def _parse_case(text: str) -> Case | HarnessCase:
    try:
        exercise = reference.find(text.partition("/")[0])
        if isinstance(exercise, Harness):
            planted = HarnessCase.parse(text)
            if not exercise.takes(planted):
                raise ValueError(f"{exercise.id} has no such case {text!r}")
            return planted
        case = Case.parse(text)
    except (ValueError, KeyError) as error:
        raise SelectionError(f"--reproduce: {error.args[0]}") from None
    if not exercise.takes(case):
        upstream = ["the gradient dout of its result"] if case.check == "gradient" else []
        raise SelectionError(f"--reproduce: {case.exercise} takes {', '.join([*exercise.arguments, *upstream])}")
    return case


def _jobs() -> int:
    """Items judged at a time: a judge's thread and a worker use about one core together."""
    return max(2, min(8, len(os.sched_getaffinity(0)) // 2))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

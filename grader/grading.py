"""One grading of one submission: its items, what has been found so far, and the result made of it."""

from __future__ import annotations

import os
import shlex
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import reference
from reference.exercise import Case, Exercise
from reference.harness import Harness, HarnessCase

from . import result as results
from .compiles import judge_compiles
from .errors import InfrastructureError, SelectionError
from .explain import EXPLAINED, explain
from .fused import judge_fused
from .harness import HarnessTarget, judge_harness
from .items import Item, Rounds, benchmark_case, items_of
from .judge import Caller, Target
from .machine import Machine
from .policy import check_sources
from .report.attachments import SUFFIXES
from .report.script import debug_script
from .rubric import LoadedRubric
from .scoring import PREREQUISITES, ItemScore, score, total
from .search import Outcome, Search
from .silenced import judge_silenced
from .submission import Submission
from .threads import guard_ast_parse
from .verdict import Status, Verdict

COMPILER_S = 20.0


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
    attachments: Path = Path("result-files")  # the folder of pictures and scripts, beside the result


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
        exercises = {item.exercise for item in self.items}
        self._sources = {name: submission.sources(self.rubric.file_of(name)) for name in exercises}
        self._found_in = {
            name: check_sources(sources, self.rubric.source_rules) for name, sources in self._sources.items()
        }
        self._hashes = submission.hashes({name: self.rubric.file_of(name) for name in exercises})
        self._attachments = selection.attachments
        self._judged: dict[Item, Judged] = {}
        self._started = _now()
        self._machine = machine
        self._pool = ThreadPoolExecutor(max_workers=_jobs(), thread_name_prefix="judge")
        self._ahead: dict[Item, Future[Judged]] = {}

    def start(self, items: Sequence[Item]) -> None:
        """Begin to judge all of these that are not timed, a few at a time; `grade` waits for what it wants."""
        guard_ast_parse()
        if any(item.check == "speed" for item in items) and (timed := self._timed_cases()):
            self._machine.peers(timed)
        for item in items:
            if not self._timed(item):
                self._ahead[item] = self._pool.submit(self._judge, item)

    def close(self) -> None:
        """Give up what is not judged yet. Close the machine first: it ends the workers that are waited for."""
        self._pool.shutdown(cancel_futures=True)

    def grade(self, item: Item, rounds: Rounds | None = None) -> Judged:
        """Judge an item; `rounds` runs the rounds of a timed one, for which all else must be over."""
        if self._timed(item):
            wait(self._ahead.values())
        judged = self._ahead[item].result() if item in self._ahead else self._judge(item, rounds)
        self._judged[item] = judged
        return judged

    def _timed(self, item: Item) -> bool:
        """Whether nothing else may run on the GPU meanwhile."""
        measures = isinstance(reference.find(item.exercise), Harness)
        return item.check == "speed" or (measures and self._machine.has_gpu)

    def _judge(self, item: Item, rounds: Rounds | None = None) -> Judged:
        """The verdict on an item. A fault of the grader is tried once more, then kept as `infrastructure_error`."""
        begun = time.monotonic()
        for attempt in (1, 2):
            try:
                outcome = self._outcome(item, rounds)
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
                staff = {**self._found_in[item.exercise].staff, **found.staff}
                verdict = replace(found, evidence=evidence, staff=staff)
                break
        else:
            verdict = fault
        return Judged(verdict, time.monotonic() - begun)

    def _outcome(self, item: Item, rounds: Rounds | None) -> Outcome:
        exercise = reference.find(item.exercise)
        timed = item.check == "speed"
        if timed and (self._machine.gpu is None or rounds is None):
            return Outcome(Verdict(Status.NOT_MEASURED, "speed is measured on a GPU only"), 0, cut_short=False)
        if (forbidden := self._found_in[item.exercise].verdict()) is not None:
            return Outcome(forbidden, 0, cut_short=False)
        if isinstance(exercise, Harness):
            return self._measuring(item, exercise)
        if timed and rounds is not None:
            return Outcome(self._speed(item, exercise, rounds), 0, cut_short=False)
        on_host = item.check in ("compiles", "fused")
        with (
            self._machine.shared(on_host=on_host),
            Caller(
                self._machine.interpreter if on_host else self._machine.values,
                self._target(exercise, "cpu" if on_host else self._machine.torch_device),
            ) as caller,
        ):
            outcome = self._outcome_of_calls(item, exercise, caller)
        return replace(outcome, verdict=replace(outcome.verdict, staff=caller.staff))

    def _outcome_of_calls(self, item: Item, exercise: Exercise, caller: Caller) -> Outcome:
        def verdict_on(case: Case) -> Verdict:
            return caller.judge(case, self.rubric.tolerance_for(case))

        listed = [
            Case(item.exercise, item.check, item.dtype, inputs.tensors, inputs.seed, inputs.options)
            for inputs in exercise.edge_cases(item.check)
        ]
        cases = [self.case] if isinstance(self.case, Case) else listed
        if item.check == "compiles":
            return judge_compiles(caller, cases, self.rubric.targets_of(item.exercise))
        if item.check == "fused":
            outcome = judge_fused(verdict_on, exercise, cases, self.rubric.exercises[item.exercise].fused)
        elif isinstance(self.case, Case):
            outcome = Outcome(verdict_on(self.case), 1, cut_short=False)
        else:
            outcome = Search(verdict_on, exercise, item.check, item.dtype, self.rubric.cases, self.seed).run()
        if outcome.verdict.passed:
            silenced = self._silenced(exercise, caller, cases)
            return outcome if silenced is None else replace(outcome, verdict=silenced)
        verdict = explain(caller, outcome.verdict, self.rubric.tolerance_for)
        return replace(outcome, verdict=self._with_script(item, verdict))

    def _silenced(self, exercise: Exercise, caller: Caller, cases: Sequence[Case]) -> Verdict | None:
        """The verdict on a submission whose results are right without kernels. Only the interpreter can hold them."""
        if caller.target.device != "cpu":
            with Caller(self._machine.interpreter, self._target(exercise, "cpu")) as on_host:
                return self._silenced(exercise, on_host, cases)
        return judge_silenced(
            lambda case: caller.judge(case, self.rubric.tolerance_for(case), silenced=True), cases, self.seed
        )

    def _measuring(self, item: Item, harness: Harness) -> Outcome:
        file = self.rubric.file_of(harness.id)
        target = HarnessTarget(harness, self._sources[harness.id], file, self.rubric.within_of(harness.id),
                               self.rubric.cases.case_timeout_s, real=self._machine.has_gpu)  # fmt: skip
        listed = harness.cases(item.check, self.seed)
        cases = [self.case] if isinstance(self.case, HarnessCase) else listed
        with self._machine.alone() if target.real else nullcontext():
            return judge_harness(self._machine.values, target, cases)

    def _with_script(self, item: Item, verdict: Verdict) -> Verdict:
        """The verdict with a script that calls the submission on its case, for failures that one call shows."""
        file = self.submission.find(self.rubric.file_of(item.exercise))
        if verdict.status not in (*EXPLAINED, Status.RAISED) or not verdict.case or file is None:
            return verdict
        script = debug_script(
            verdict, self.rubric.tolerance_for(Case.parse(verdict.case)), file.resolve(),
            self.rubric.entry_of(item.exercise), default_root(), script=self._path(item, "py"),
            tf32=self.rubric.tf32_of(item.exercise),
        )  # fmt: skip
        return replace(verdict, attachments={**verdict.attachments, "py": script})

    def _path(self, item: Item, suffix: str) -> Path:
        return self._attachments / f"{item}.{suffix}"

    def files(self, item: Item) -> list[Path]:
        """The paths of an item's attachments."""
        judged = self._judged.get(item)
        return [self._path(item, suffix) for suffix in SUFFIXES if judged and suffix in judged.verdict.attachments]

    def attachments(self) -> dict[str, Mapping[str, str]]:
        """The texts of all attachments, by item and suffix."""
        return {str(item): judged.verdict.attachments for item, judged in self._judged.items() if item.check != "speed"}

    def _target(self, exercise: Exercise, device: str) -> Target:
        return Target(
            exercise,
            self._sources[exercise.id],
            self.rubric.file_of(exercise.id),
            self.rubric.entry_of(exercise.id),
            tf32=self.rubric.tf32_of(exercise.id),
            # On a GPU the compiler runs within the call, and again for a shape that it specialises for.
            case_timeout_s=self.rubric.cases.case_timeout_s + (COMPILER_S if device == "cuda" else 0.0),
            device=device,
        )

    def _speed(self, item: Item, exercise: Exercise, rounds: Rounds) -> Verdict:
        machine = self._machine
        assert machine.gpu is not None
        assert machine.baseline is not None
        if missing := self.missing(item):
            return Verdict(Status.TOO_SLOW, f"not timed: {' and '.join(missing)} must pass in {item.dtype} first")
        from .speed import SpeedRun, judge_speed

        assert item.benchmark is not None
        case = _timed_case(item)
        with machine.alone():
            device = machine.device
            thresholds = item.benchmark.thresholds(device.name)
            run = SpeedRun(
                case, item.benchmark.baseline, thresholds.floor, thresholds.target, self.rubric.tolerance_for(case)
            )
            target = self._target(exercise, "cuda")
            peers = machine.peers(self._timed_cases())
            verdict = judge_speed(machine.gpu, machine.baseline, target, run, device, peers, self.seed, rounds)
        if "nvtx_range" in verdict.evidence:
            verdict.evidence["profile"] = self._profile_command(item, verdict.evidence["nvtx_range"])
        return verdict

    def _profile_command(self, item: Item, nvtx_range: str) -> str:
        """The command that shows one timed launch of an item, as it is graded, to Nsight Compute."""
        # ncu follows a process that is started, not one that is forked.
        graded = [*self._command, "--exercise", item.exercise, "--spawn-workers", "-k", "speed"]
        options = ["--clock-control", "none", "--target-processes", "all", "--launch-count", "1"]
        return shlex.join(["ncu", "--nvtx", "--nvtx-include", nvtx_range, *options, *graded])

    def _timed_cases(self) -> list[Case]:
        return [_timed_case(item) for item in self.items if item.benchmark is not None and self._machine.has_gpu]

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
            grader=_grader_version(),
        )


def _timed_case(item: Item) -> Case:
    """The case of an item that is timed."""
    assert item.benchmark is not None
    return benchmark_case(reference.load(item.exercise), item.benchmark)


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
    return max(2, min(8, (os.cpu_count() or 2) // 2))


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

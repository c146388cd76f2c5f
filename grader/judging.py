"""How one item is judged: which worker, which cases, which check. Trusted side."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import reference
from reference.exercise import Case, Exercise
from reference.harness import Harness, HarnessCase

from .assembler import ASSEMBLED_WRONG, is_assembled_wrong, may_be_assembled_wrong
from .bounds import judge_bounds
from .compiles import judge_compiles
from .explain import EXPLAINED, explain
from .fused import judge_fused
from .harness import HarnessTarget, judge_harness
from .items import Item, Rounds, benchmark_case
from .judge import Caller, Target
from .machine import Machine
from .policy import check_sources
from .report.script import debug_script
from .rubric import Rubric
from .runner import Worker
from .search import Outcome, Search
from .silenced import judge_silenced
from .spare import WORTH_KEEPING, SpareWorkers
from .submission import Submission
from .verdict import Status, Verdict

COMPILER_S = 40.0
# What is said of a result that passed on a GPU, where only the interpreter can hold the kernels.
ON_A_CPU_TOO = ("Let the kernel do the work, on a CPU as well: there Triton's interpreter runs it. A branch that does "
                "without it where there is no GPU counts too.")  # fmt: skip


@dataclass(frozen=True)
class Selection:
    """What to grade of a rubric, and how: from the command line."""

    exercises: Sequence[str] = ()
    seed: int | None = None
    reproduce: str | None = None
    command: Sequence[str] = ("pytest", "grader")
    attachments: Path = Path("result-files")  # the folder of pictures and scripts, beside the result


class Judging:
    """Judges the items of one submission with the workers of a machine."""

    def __init__(self, rubric: Rubric, submission: Submission, machine: Machine, items: Sequence[Item], seed: int,
                 case: Case | HarnessCase | None, selection: Selection) -> None:  # fmt: skip
        """With `case`, that one alone. Raises SubmissionError where a file can't be read."""
        self.rubric = rubric
        self.submission = submission
        self.seed = seed
        self.case = case
        self._machine = machine
        self._items = items
        self._command = selection.command
        self._attachments = selection.attachments
        self._spare = SpareWorkers()
        exercises = {item.exercise for item in items}
        self.sources = {name: submission.sources(rubric.file_of(name)) for name in exercises}
        self._found_in = {name: check_sources(sources, rubric.source_rules) for name, sources in self.sources.items()}

    def is_timed(self, item: Item) -> bool:
        """Whether nothing else may run on the GPU meanwhile."""
        measures = isinstance(reference.find(item.exercise), Harness)
        return item.check == "speed" or (measures and self._machine.has_gpu)

    def close(self) -> None:
        """End the workers that wait for an item."""
        self._spare.close()

    def outcome(self, item: Item, rounds: Rounds | None, missing: Sequence[str]) -> Outcome:
        """Judge an item; `missing` are the checks that have to pass before it is timed. Raises InfrastructureError."""
        found_in = self._found_in[item.exercise]
        outcome = self._outcome(item, rounds, missing)
        return replace(outcome, verdict=replace(outcome.verdict, staff={**found_in.staff, **outcome.verdict.staff}))

    def _outcome(self, item: Item, rounds: Rounds | None, missing: Sequence[str]) -> Outcome:
        exercise = reference.find(item.exercise)
        timed = item.check == "speed"
        if self.is_timed(item):
            self._spare.close()
        if timed and (self._machine.gpu is None or rounds is None):
            return Outcome(Verdict(Status.NOT_MEASURED, "speed is measured on a GPU only"), 0, cut_short=False)
        if (forbidden := self._found_in[item.exercise].verdict()) is not None:
            return Outcome(forbidden, 0, cut_short=False)
        if isinstance(exercise, Harness):
            return self._measuring(item, exercise)
        if timed and rounds is not None:
            if missing:
                why = f"not timed: {' and '.join(missing)} must pass in {item.dtype} first"
                return Outcome(Verdict(Status.TOO_SLOW, why), 0, cut_short=False)
            return Outcome(self._speed(item, exercise, rounds), 0, cut_short=False)
        on_host = item.check in ("compiles", "fused")
        device = "cpu" if on_host else self._machine.torch_device
        with self._machine.shared(on_host=on_host):
            outcome = self._outcome_in_worker(item, exercise, device)
            if device == "cuda" and may_be_assembled_wrong(outcome.verdict):
                outcome = self._unless_assembled_wrong(item, exercise, outcome)
        if device == "cuda" and outcome.verdict.passed:
            outcome = self._seen_on_the_host(item, exercise, outcome)
        return outcome

    def _outcome_in_worker(self, item: Item, exercise: Exercise, device: str) -> Outcome:
        """The outcome of an item in a fresh worker, or in one that waits for it."""
        kept = device in WORTH_KEEPING
        spare = self._spare.take(exercise.id) if kept else None
        with self._caller(self._target(exercise, device), spare) as caller:
            outcome = self._outcome_of_calls(item, exercise, caller)
            # After a failure nobody knows what a worker's memory is like.
            if kept and outcome.verdict.passed and (worker := caller.release()) is not None:
                self._spare.put(exercise.id, worker)
        return replace(outcome, verdict=replace(outcome.verdict, staff=caller.staff))

    def _unless_assembled_wrong(self, item: Item, exercise: Exercise, outcome: Outcome) -> Outcome:
        """The outcome of an item that failed on a GPU, or, where the assembler is to blame, that without its doing."""
        case = Case.parse(outcome.verdict.case)
        tolerance = self.rubric.tolerance_for(case)
        plain = replace(self._target(exercise, "cuda"), optimised=False, private_cache=True)
        with self._caller(self._target(exercise, "cpu")) as interpreted, self._caller(plain) as caller:
            if not is_assembled_wrong(
                lambda: interpreted.observe(case, tolerance).verdict, lambda: caller.observe(case, tolerance).verdict
            ):
                return outcome
            again = self._outcome_of_calls(item, exercise, caller)
        staff = {**caller.staff, ASSEMBLED_WRONG: outcome.verdict.message}
        return replace(again, verdict=replace(again.verdict, staff=staff))

    def _outcome_of_calls(self, item: Item, exercise: Exercise, caller: Caller) -> Outcome:
        def verdict_on(case: Case) -> Verdict:
            return caller.judge(case, self.rubric.tolerance_for(case))

        cases = self._listed(item, exercise)
        if item.check == "compiles":
            return judge_compiles(caller, cases, self.rubric.targets_of(item.exercise))
        if item.check == "fused":
            outcome = judge_fused(verdict_on, exercise, cases, self.rubric.exercises[item.exercise].fused)
        elif isinstance(self.case, Case):
            outcome = Outcome(verdict_on(self.case), 1, cut_short=False)
        else:
            outcome = Search(verdict_on, exercise, item.check, item.dtype, self.rubric.cases, self.seed).run()
        if not outcome.verdict.passed:
            verdict = explain(caller, outcome.verdict, self.rubric.tolerance_for)
            return replace(outcome, verdict=self._with_script(item, verdict))
        silenced = self._silenced(caller, cases) if caller.target.device == "cpu" else None
        return outcome if silenced is None else replace(outcome, verdict=silenced)

    def _seen_on_the_host(self, item: Item, exercise: Exercise, outcome: Outcome) -> Outcome:
        """The outcome of an item that passed on a GPU, with what only the interpreter sees, by calls of it."""
        cases = self._listed(item, exercise)
        with self._caller(self._target(exercise, "cpu")) as interpreted:
            found = judge_bounds(
                lambda case: interpreted.judge(case, self.rubric.tolerance_for(case)), cases, self.rubric.cases.budget_s
            )
            if found is not None:
                found = self._with_script(item, explain(interpreted, found, self.rubric.tolerance_for))
            elif (found := self._silenced(interpreted, cases)) is not None:
                found = replace(found, hint=ON_A_CPU_TOO)
        return outcome if found is None else replace(outcome, verdict=replace(found, staff=outcome.verdict.staff))

    def _listed(self, item: Item, exercise: Exercise) -> list[Case]:
        """The listed cases of an item, or the one that is to be judged again."""
        if isinstance(self.case, Case):
            return [self.case]
        return [
            Case(item.exercise, item.check, item.dtype, inputs.tensors, inputs.seed, inputs.options)
            for inputs in exercise.edge_cases(item.check)
        ]

    def _silenced(self, caller: Caller, cases: Sequence[Case]) -> Verdict | None:
        """The verdict on a submission whose results are right without kernels. Only the interpreter can hold them."""
        return judge_silenced(
            lambda case: caller.judge(case, self.rubric.tolerance_for(case), silenced=True), cases, self.seed
        )

    def _measuring(self, item: Item, harness: Harness) -> Outcome:
        file = self.rubric.file_of(harness.id)
        target = HarnessTarget(harness, self.sources[harness.id], file, self.rubric.within_of(harness.id),
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
            self.rubric.entry_of(item.exercise), code_root(), script=self.path(item, "py"),
            tf32=self.rubric.tf32_of(item.exercise),
        )  # fmt: skip
        return replace(verdict, attachments={**verdict.attachments, "py": script})

    def path(self, item: Item, suffix: str) -> Path:
        """Where an item's attachment goes."""
        return self._attachments / f"{item}.{suffix}"

    def _caller(self, target: Target, worker: Worker | None = None) -> Caller:
        """What calls a target where it is to run; `worker`, which has its file imported, is used first."""
        zygote = self._machine.interpreter if target.device == "cpu" else self._machine.values
        return Caller(zygote, target, worker)

    def _target(self, exercise: Exercise, device: str) -> Target:
        return Target(
            exercise,
            self.sources[exercise.id],
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
        from .speed import SpeedRun, judge_speed

        assert item.benchmark is not None
        case = timed_case(item)
        peers = machine.peers(self.timed_cases())
        peers.wait()  # here, as nobody else could use the GPU while it compiles
        with machine.alone():
            device = machine.device
            thresholds = item.benchmark.thresholds(device.name)
            run = SpeedRun(
                case, item.benchmark.baseline, thresholds.floor, thresholds.target, self.rubric.tolerance_for(case)
            )
            target = self._target(exercise, "cuda")
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

    def timed_cases(self) -> list[Case]:
        """The cases of all items that are timed here."""
        return [timed_case(item) for item in self._items if item.benchmark is not None and self._machine.has_gpu]


def timed_case(item: Item) -> Case:
    """The case of an item that is timed."""
    assert item.benchmark is not None
    return benchmark_case(reference.load(item.exercise), item.benchmark)


def default_root() -> Path:
    """The course's folder, with `student/` and `rubric.yaml`: the one that holds `grader/`.

    Where the grader was installed from a wheel there is none such: then the nearest one around the current folder.
    """
    here = code_root()
    if (here / "rubric.yaml").is_file():
        return here
    current = Path.cwd()
    return next((folder for folder in (current, *current.parents) if (folder / "rubric.yaml").is_file()), current)


def code_root() -> Path:
    """The folder that holds `grader/` and `reference/`."""
    return Path(__file__).parent.parent

"""Trusted side: profiles one exercise of a submission, or a baseline of it, on the GPU of this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import reference
from reference.exercise import DTYPES, Case, Exercise

from . import profiling, sweep
from .errors import SelectionError
from .hardware import Gpu
from .items import benchmark_case
from .players import STUDENT, baseline_sources, range_name
from .profiling import KernelTime, ProfilingError, Roofline, Tool
from .rubric import Rubric
from .submission import Submission

CALL_TIMEOUT_S = 300.0
SWEEP_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class Profiler:
    """What is profiled, and the GPU's limits. `of` is the student or the name of a baseline."""

    rubric: Rubric
    submission: Submission
    exercise: Exercise
    case: Case
    gpu: Gpu
    of: str = STUDENT

    def kernels(self) -> tuple[list[KernelTime], Roofline]:
        """The kernels of one call by torch.profiler, and what the call reaches. Raises ProfilingError."""
        with self._player(self.of) as (file, entry), _folder() as out:
            wanted = profiling.request("torch", file, entry, self._label, self.exercise, [self.case], out)
            profiling.run_child(profiling.child_command(wanted), CALL_TIMEOUT_S)
            found = profiling.read_trace((out / "trace.json").read_text())
            (time_us,) = profiling.read_times(out / "times.json", 1)
        if not found or time_us is None:
            raise ProfilingError("no kernel ran in the call")
        cost = self.exercise.cost(self.exercise.shapes(self.case), DTYPES[self.case.dtype].itemsize,
                                  **self.exercise.options_of(self.case))  # fmt: skip
        return found, profiling.roofline(cost, self.case.dtype, time_us, self.gpu)

    def external(self, tool: Tool, out: Path) -> str:
        """Run NVIDIA's profiler on the graded range; prints its command first. Raises ProfilingError."""
        program = profiling.find_tool(tool)
        with self._player(self.of) as (file, entry):
            wanted = profiling.request("range", file, entry, self._label, self.exercise, [self.case], out)
            command = profiling.profiler_command(tool, program, self._label, profiling.child_command(wanted), out)
            print(profiling.shown(command), flush=True)  # noqa: T201 - to be copied as it stands
            return profiling.run_profiler(command)

    def sweep(self, sizes: Sequence[int] = sweep.SIZES) -> list[sweep.Point]:
        """The student's and the baselines' times over sizes. Raises ProfilingError where the student's call fails."""
        cases = sweep.sweep_cases(self.case, sizes)
        baselines = self.exercise.baselines
        # A baseline that is another under a second name isn't timed twice.
        distinct = {function: name for name, function in reversed(list(baselines.items()))}
        players = [STUDENT, *reversed(distinct.values())]
        swept = []
        for player in players:
            with self._player(player) as (file, entry), _folder() as out:
                wanted = profiling.request("sweep", file, entry, "", self.exercise, cases, out)
                profiling.run_child(profiling.child_command(wanted), SWEEP_TIMEOUT_S)
                times_us = profiling.read_times(out / "times.json", len(cases))
            swept += sweep.points(self.exercise, cases, sizes, player, times_us, self.gpu)
        return swept

    @property
    def _label(self) -> str:
        return range_name(self.case, self.of)

    @contextmanager
    def _player(self, name: str) -> Iterator[tuple[Path, str]]:
        """The file and the entry point of the student or of a baseline."""
        if name == STUDENT:
            file = self.rubric.file_of(self.exercise.id)
            found = self.submission.find(file)
            if found is None:
                raise SelectionError(f"{self.submission.path}: the submission has no {file}")
            yield found, self.rubric.entry_of(self.exercise.id)
            return
        with _folder() as folder:
            baseline_sources(self.exercise.id, name).stage(folder)
            yield folder / "baseline.py", "baseline"


def chosen_case(rubric: Rubric, exercise_id: str, benchmark: str | None) -> Case:
    """The case of a benchmark by its name, or of the first. Raises SelectionError."""
    benchmarks = {str(each): each for each in rubric.exercises[exercise_id].speed}
    if not benchmarks:
        raise SelectionError(f"{exercise_id} has no benchmarks in the rubric: nothing to profile")
    if benchmark is not None and benchmark not in benchmarks:
        raise SelectionError(f"--benchmark {benchmark}: {exercise_id} has {', '.join(benchmarks)}")
    return benchmark_case(reference.load(exercise_id), benchmarks[benchmark or next(iter(benchmarks))])


def chosen_player(exercise: Exercise, name: str) -> str:
    """The student or a baseline. Raises SelectionError."""
    players = [STUDENT, *exercise.baselines, "compile"]
    if name not in players:
        raise SelectionError(f"--of {name}: {exercise.id} has {', '.join(players)}")
    return name


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="grader-profile-") as name:
        yield Path(name)

"""The exercise in measuring: planted workloads tell right harnesses from wrong ones, each for its reason."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
import triton
from hypothesis import given, settings
from hypothesis import strategies as st
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import reference
from grader import harness as judging
from grader import planted
from grader.errors import RubricError, SelectionError
from grader.grading import Grading
from grader.judging import Selection
from grader.machine import Machine
from grader.report.terminal import scoreboard
from grader.rubric import load_rubric
from grader.simulation import NOT_READY, NOT_RECORDED, SimulatedDevice, Step
from grader.submission import Submission
from grader.verdict import Status, Verdict
from reference.benchmarking import EXERCISE, KERNELS, TUNING
from reference.harness import HARNESS_CHECKS, Call, HarnessCase, Kernel
from tests.corpus import FOLDER, ROOT, Entry, entries, rubric_for

ENTRIES = [entry for entry in entries() if entry.exercise == "benchmarking"]
WITHIN = load_rubric(ROOT / "rubric.yaml").rubric.within_of("benchmarking")
AVERAGES = ("sum", "best", "worst", "median", "first", "last", "seconds", "microseconds")
EVERY_CASE = [case for check in HARNESS_CHECKS for case in EXERCISE.cases(check, 0)]


def grade(machine: Machine, folder: Path, file: str, selection: Selection | None = None, **cases: float) -> Grading:
    grading = Grading(rubric_for("benchmarking", file, **cases), Submission(folder), machine, selection)
    for item in grading.items:
        grading.grade(item)
    grading.close()
    return grading


def verdicts_of(grading: Grading) -> dict[str, Verdict]:
    return {item.check: grading.grade(item).verdict for item in grading.items}


@cache
def verdicts_on(name: str, machine: Machine) -> dict[str, Verdict]:
    entry = next(entry for entry in ENTRIES if entry.name == name)
    return verdicts_of(grade(machine, entry.folder, entry.file))


def judge(
    machine: Machine, folder: Path, source: str, checks: Sequence[str] = ("average",), **cases: float
) -> list[Verdict]:
    (folder / "mine.py").write_text(textwrap.dedent(source))
    grading = Grading(rubric_for("benchmarking", "mine.py", **cases), Submission(folder), machine)
    verdicts = {item.check: grading.grade(item).verdict for item in grading.items if item.check in checks}
    grading.close()
    return [verdicts[check] for check in checks]


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_a_harness_gets_its_status_and_a_failure_says_why(entry: Entry, machine: Machine):
    verdicts = verdicts_on(entry.name, machine)
    assert {check: (str(v.status),) for check, v in verdicts.items()} == {c: s for (c, _), s in entry.expected.items()}
    for check, verdict in verdicts.items():
        if not verdict.passed:
            assert verdict.message.endswith(f", seed {HarnessCase.parse(verdict.case).seed}"), verdict
            assert verdict.hint or entry.name in ("never_runs", "events_without_timing"), (check, verdict)


@pytest.mark.parametrize(
    ("name", "check", "says", "hints"),
    [
        ("no_warmup", "warmup", "run was called once, expected 2: 1 to warm up and 1 trial", "warm-ups are missing"),
        ("one_warmup_at_least", "warmup", "called 2 times, expected 1: 0 to warm up and 1 trial", "not more"),
        ("warmups_averaged", "warmup", "benchmark returned", "the mean of the warm-ups and the trials"),
        ("no_synchronise", "asynchronous", "ms, expected", "before its work is over"),
        ("waits_after_the_clock", "asynchronous", "ms, expected", "before its work is over"),
        ("warmup_not_waited_for", "asynchronous", "ms, expected", "has the time of the warm-ups in it"),
        ("events_not_waited_for", "asynchronous", NOT_READY, "end.synchronize()"),
        ("current_stream_only", "side_stream", "side stream left", "torch.cuda.synchronize() waits for all"),
        ("lecture_harness", "side_stream", "side stream left", "Events on the current stream"),
        ("one_trial", "average", "run was called once, expected 5: 0 to warm up and 5 trials", "one trial only"),
        ("last_trial", "average", "benchmark returned", "the last trial alone"),
        ("sum_of_trials", "average", "benchmark returned", "the sum of the trials"),
        ("best_trial", "average", "benchmark returned", "the shortest trial"),
        ("median_trial", "average", "benchmark returned", "the median of the trials"),
        ("seconds", "asynchronous", "benchmark returned", "in seconds"),
        ("returns_tensor", "average", "returned torch.Tensor, expected a number of milliseconds", ".item()"),
        ("never_runs", "warmup", "run was called 0 times", "never called"),
        ("swallows_exception", "raises", "in call 1, and benchmark returned", "hides it"),
        ("wraps_exception", "raises", "but benchmark raised RuntimeError", "pass as it is"),
        ("raises_at_the_end", "raises", "run raised in call 1 and was called again", "at once"),
        ("range_left_open", "nvtx", "left open: 'trial', 'trial', 'trial'", "nvtx.annotate"),
        ("no_ranges", "nvtx", "benchmark opened no NVTX range", "`with torch.cuda.nvtx.range"),
        ("one_range_for_all_trials", "nvtx", "1 NVTX ranges are named trial…, expected 3", "range of its own"),
        ("profile_without_warmup", "profile", "called once, expected 3: 2 to warm up", "warm-ups are missing"),
        ("profile_of_warmups", "profile", "a row for planted_tuning", "earlier call only"),
        ("profile_with_runtime_calls", "profile", "a row for cudaLaunchKernel", "DeviceType.CUDA"),
        ("profile_with_operators", "profile", "a row for planted::", "DeviceType.CUDA"),
        ("profile_of_one_launch", "profile", "planted_product: ", "one launch, not their sum"),
        ("profile_in_milliseconds", "profile", " µs, expected", "in milliseconds"),
        ("profile_shortest_first", "profile", "which took longer", "longest first"),
        ("profile_of_names", "profile", "row 0 is not (kernel, calls, microseconds)", "a tuple of a string"),
        ("profile_of_the_host", "profile", "there is no row for", "ProfilerActivity.CUDA"),
        ("clears_the_cache", "average", "CUDA", "no tensors"),
    ],
)  # fmt: skip
def test_a_wrong_harness_is_told_its_reason(machine, name, check, says, hints):
    verdict = verdicts_on(name, machine)[check]
    assert says in verdict.message
    assert hints in f"{verdict.message} {verdict.hint}"


@pytest.mark.parametrize("seed", [1, 987654321])
def test_the_solution_and_the_right_ones_pass_with_any_seed(machine, seed):
    folders = [(ROOT / "reference/solutions", "benchmarking.py")]
    folders += [(entry.folder, entry.file) for entry in ENTRIES if entry.right]
    assert len(folders) >= 4
    for folder, file in folders:
        verdicts = verdicts_of(grade(machine, folder, file, Selection(seed=seed)))
        assert {verdict.status for verdict in verdicts.values()} == {Status.PASSED}, file


def test_the_starter_is_not_implemented(machine):
    verdicts = verdicts_of(grade(machine, ROOT / "student", "benchmarking.py"))
    assert {verdict.status for verdict in verdicts.values()} == {Status.NOT_IMPLEMENTED}
    assert "student/benchmarking.py" in verdicts["profile"].message


def test_a_failed_case_is_judged_again_by_its_text(machine):
    folder, file = FOLDER / "benchmarking", "current_stream_only.py"
    failed = verdicts_on("current_stream_only", machine)["side_stream"]
    again = verdicts_of(grade(machine, folder, file, Selection(reproduce=failed.case)))
    assert {check: verdict.message for check, verdict in again.items()} == {"side_stream": failed.message}
    for text, says in (
        ("benchmarking/average/benchmark:steady/9+9/0", "has no such case"),
        ("benchmarking/average", "is not of the form EXERCISE/CHECK/FUNCTION"),
    ):
        with pytest.raises(SelectionError, match=says):
            grade(machine, folder, file, Selection(reproduce=text))


@pytest.mark.parametrize("case", EVERY_CASE, ids=str)
def test_the_text_of_a_case_gives_the_case(case):
    assert HarnessCase.parse(str(case)) == case
    assert EXERCISE.takes(case)
    assert len(EXERCISE.calls(case)) == case.calls


def test_the_worker_is_told_times_only_by_clocks_events_and_the_profiler(machine, monkeypatch):
    told: list[tuple[str, dict]] = []

    class Listening(SimulatedDevice):
        def answer(self, step):
            answer = super().answer(step)
            told.append((step.operation, answer))
            return answer

    monkeypatch.setattr(judging, "SimulatedDevice", Listening)
    grade(machine, FOLDER / "benchmarking", "right_events.py")
    assert {operation for operation, _ in told} >= {"call", "record", "elapsed", "marks", "stop_profiler"}
    for operation, answer in told:
        if operation not in ("clock", "elapsed", "stop_profiler"):
            assert not any(isinstance(value, float) for value in answer.values()), (operation, answer)


@settings(max_examples=30)
@given(st.integers(0, 2**40))
def test_no_average_comes_near_another(seed):
    for case in EXERCISE.cases("average", seed):
        times = [call.time_us / 1e3 for call in EXERCISE.calls(case)]
        right = math.fsum(times) / len(times)
        figures = [right, *(EXERCISE.mistakes[name].of([], times) for name in AVERAGES)]
        for one, other in combinations(figures, 2):
            assert abs(one - other) > WITHIN * max(one, other)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('simulated._ask("record", event=99)', "event 99"),
        ('simulated._ask("synchronize_stream", stream=7)', "7"),
        ('simulated._ask("give_points")', "operation"),
        ('simulated._ask("sleep", seconds=-1.0)', "seconds"),
        ('simulated._line._marks.append({"operation": "push", "text": "x" * 300})', "text"),
        ('simulated._line._marks.extend([{"operation": "pop"}] * 300)', "marks"),
    ],
)
def test_a_step_that_there_is_not_costs_the_submission_only(machine, tmp_path, body, says):
    source = f"""
        from grader.worker import simulated

        def benchmark(run, num_warmups, num_trials):
            {body}
            return 1.0
        """
    [verdict] = judge(machine, tmp_path, source)
    assert verdict.status is Status.CRASHED
    assert says in verdict.message


def test_ranges_may_be_many_and_end_in_any_order(machine, tmp_path):
    source = """
        import torch

        def benchmark(run, num_warmups=1, num_trials=3):
            started = [torch.cuda.nvtx.range_start(f"note {number}") for number in range(150)]
            for number in range(num_warmups + num_trials):
                with torch.cuda.nvtx.range("warmup" if number < num_warmups else "trial"):
                    run()
            for number in started:
                torch.cuda.nvtx.range_end(number)
            return 0.0

        def profile(run, num_warmups=1):
            for number in range(num_warmups + 1):
                with torch.cuda.nvtx.range("warmup" if number < num_warmups else "profile"):
                    run()
            return []
        """
    (verdict,) = judge(machine, tmp_path, source, ["nvtx"])
    assert verdict.passed, verdict.message


def test_a_profiler_that_an_exception_left_running_is_not_there_in_the_next_case(machine, tmp_path):
    source = """
        running = False

        def benchmark(run, num_warmups=1, num_trials=3):
            for _ in range(num_warmups + num_trials):
                run()
            return 0.0

        def profile(run, num_warmups=1):
            global running
            if running:
                raise RuntimeError("a profiler runs already")
            running = True
            for _ in range(num_warmups + 1):
                run()
            running = False
            return []
        """
    (verdict,) = judge(machine, tmp_path, source, ["raises"])
    assert verdict.passed, verdict.message


def test_a_harness_that_does_not_end_is_timed_out(machine, tmp_path):
    source = """
        import torch

        def benchmark(run, num_warmups, num_trials):
            while True:
                torch.cuda.synchronize()
        """
    [verdict] = judge(machine, tmp_path, source, case_timeout_s=2)
    assert verdict.status is Status.TIMED_OUT
    assert "benchmark(run, 0, 5)" in verdict.message


@pytest.mark.parametrize("value", ["float('nan')", "float('inf')", "-1.0", "True", "None", "'17'", "10**400", "[1, 2]"])
def test_what_is_no_time_is_never_passed(machine, tmp_path, value):
    source = f"""
        def benchmark(run, num_warmups, num_trials):
            for _ in range(num_warmups + num_trials):
                run()
            return {value}
        """
    [verdict] = judge(machine, tmp_path, source)
    assert verdict.status in (Status.WRONG_VALUES, Status.WRONG_SHAPE)


def test_sleeping_and_waiting_by_polling_take_no_real_time(machine, tmp_path):
    source = """
        import time
        import torch

        def benchmark(run, num_warmups, num_trials):
            for _ in range(num_warmups):
                run()
            torch.cuda.synchronize()
            time.sleep(3600)
            start = time.monotonic_ns()
            for _ in range(num_trials):
                run()
                done = torch.cuda.Event()
                done.record()
                while not done.query():
                    time.sleep(0.0005)
            return (time.monotonic_ns() - start) / 1e6 / num_trials
        """
    verdicts = judge(machine, tmp_path, source, ("warmup", "asynchronous", "average"))
    assert [verdict.status for verdict in verdicts] == [Status.PASSED] * 3


def test_a_side_stream_runs_beside_the_current_one():
    device = SimulatedDevice([Call((Kernel("a", 5000.0),), where="left"), Call((Kernel("b", 1000.0),))])

    def do(operation: str, **facts) -> dict:
        return device.answer(Step(operation=operation, **facts))

    events = [do("new_event", timing=True)["event"] for _ in range(3)]
    assert do("elapsed", event=events[0], end=events[1]) == {"error": NOT_RECORDED}
    do("record", event=events[0])
    do("call")
    do("record", event=events[1])
    assert do("elapsed", event=events[0], end=events[1])["elapsed_us"] < 10
    do("call")
    do("record", event=events[1])
    assert do("elapsed", event=events[0], end=events[1]) == {"error": NOT_READY}
    do("synchronize_stream")
    assert 1000 < do("elapsed", event=events[0], end=events[1])["elapsed_us"] < 1020
    assert not do("query_stream", stream=-1)["done"]
    do("synchronize")
    do("record", event=events[2])
    assert 5000 < do("elapsed", event=events[0], end=events[2])["elapsed_us"] < 5020
    assert device.calls.count == 2


def test_items_without_dtypes_have_a_table_of_their_own(machine):
    grading = grade(machine, FOLDER / "benchmarking", "no_warmup.py")
    assert [str(item) for item in grading.items] == [f"benchmarking-{check}" for check in HARNESS_CHECKS]
    lines = scoreboard(grading.result(), color=False).splitlines()
    assert any("exercise" in line and "status" in line for line in lines)
    assert any("benchmarking" in line and "warmup" in line and "wrong_values" in line for line in lines)
    assert "no dtype" not in "".join(lines)


@pytest.mark.parametrize(
    ("exercises", "says"),
    [
        ("benchmarking: {points: 1, dtypes: [float32]}", "is an exercise in measuring, which has no dtypes"),
        ("benchmarking: {points: 1, entry: benchmark}", "is an exercise in measuring, which has no entry"),
        ("gelu: {points: 1, within: 0.05}", "is an exercise in writing kernels, which has no within"),
        ("benchmarking: {points: 1, weights: {ragged: 1}}", "benchmarking has no check 'ragged'"),
        ("benchmarking: {points: 1, within: 0.5}", "within"),
    ],
)
def test_a_rubric_says_what_is_for_the_other_kind_of_exercise(tmp_path, exercises, says):
    path = tmp_path / "rubric.yaml"
    path.write_text("schema: grader.rubric/1\ntitle: Test\nseed: 7\nweights: {warmup: 1}\nexercises:\n"
                    f"  row_sum: {{points: 1, weights: {{aligned: 1}}}}\n  {exercises}\n")  # fmt: skip
    with pytest.raises(RubricError) as caught:
        load_rubric(path)
    assert str(caught.value).startswith(f"{path}:7: ")
    assert says in str(caught.value)


def test_only_exercises_in_writing_kernels_are_loaded_as_such():
    assert "benchmarking" in reference.exercise_ids()
    assert "benchmarking" not in reference.kernel_exercise_ids()
    with pytest.raises(KeyError, match="no exercise in writing kernels"):
        reference.load("benchmarking")


@pytest.mark.parametrize("name", sorted({*KERNELS, TUNING}))
def test_a_gpus_compiler_takes_the_planted_kernels(name):
    """Annotations once made it look for `Any` among the globals that a kernel may use."""
    source = ASTSource(planted._KERNELS[name], {"time_ns": "i32"}, {})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1})
    assert compiled.metadata.name == name
    assert compiled.asm["ptx"].count("%globaltimer") >= 2

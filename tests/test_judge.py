"""The judge and its workers together: accidents that are not the submission's, and messages that say where."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import reference
from grader import judging
from grader.bounds import judge_bounds
from grader.grading import Grading
from grader.items import Item
from grader.judge import NEVER_AGAIN, REPEATS, Caller, Target
from grader.machine import Machine
from grader.rubric import Limits
from grader.search import Outcome
from grader.submission import Submission
from grader.verdict import Status, Verdict
from reference.exercise import Case
from tests.corpus import FOLDER, rubric_for
from tests.test_zygote import parent

VALUES = ("aligned", "ragged", "strided", "extreme")


@pytest.fixture(scope="module")
def machine():
    started = Machine(Limits(), "cpu")
    started.interpreter.ready()
    yield started
    started.close()


def kill_workers(machine: Machine) -> int:
    zygote = machine.interpreter._process.pid
    workers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and parent(path) == zygote]
    for pid in workers:
        os.kill(pid, 9)
    return len(workers)


def test_a_worker_killed_from_outside_costs_the_submission_nothing(machine):
    sources = Submission(FOLDER / "softmax").sources("right_online.py")
    target = Target(reference.load("softmax"), sources, "right_online.py", "softmax", tf32=True, case_timeout_s=20)
    case = Case.parse("softmax/ragged/float32/x:64x1023:normal:contiguous/0")
    tolerance = rubric_for("softmax", "right_online.py").rubric.tolerance_for(case)
    with Caller(machine.interpreter, target) as caller:
        assert caller.judge(case, tolerance).passed
        assert kill_workers(machine) == 1
        assert caller.judge(case, tolerance).passed


def passing_or_not(monkeypatch, outcomes, device):
    """A caller whose calls pass or fail as told; the last outcome goes on."""
    caller = Caller(
        None, Target(reference.load("softmax"), None, "f.py", "f", tf32=True, case_timeout_s=1, device=device)
    )
    calls = []

    def observe(case, tolerance, *, silenced):
        passes = outcomes[min(len(calls), len(outcomes) - 1)]
        calls.append(passes)
        verdict = Verdict(Status.PASSED) if passes else Verdict(Status.WRONG_VALUES, f"call {len(calls)}")
        return SimpleNamespace(verdict=verdict)

    monkeypatch.setattr(caller, "observe", observe)
    return caller, calls


def test_a_wrong_result_on_a_gpu_that_never_shows_again_costs_nothing_and_staff_are_told(monkeypatch):
    caller, calls = passing_or_not(monkeypatch, [False, True], "cuda")
    assert caller.judge(None, None).passed
    assert len(calls) == 1 + REPEATS
    assert caller.staff == {NEVER_AGAIN: "call 1"}


@pytest.mark.parametrize(("device", "outcomes"), [("cuda", [False, False]), ("cuda", [False, *[True] * 9, False]),
                                                  ("cpu", [False, True])])  # fmt: skip
def test_a_wrong_result_that_shows_again_or_comes_from_the_interpreter_stands(monkeypatch, device, outcomes):
    caller, calls = passing_or_not(monkeypatch, outcomes, device)
    assert caller.judge(None, None).message == "call 1"
    assert calls == (outcomes if device == "cuda" else [False])
    assert caller.staff == {}


@pytest.fixture
def made_gpu(machine, monkeypatch):
    """The machine with a GPU on which every case of every item is right: it sees no access out of bounds."""
    monkeypatch.setattr(Machine, "torch_device", "cuda")
    monkeypatch.setattr(judging.Search, "run", lambda _: Outcome(Verdict(Status.PASSED), 5, cut_short=False))
    return machine


@pytest.mark.parametrize(("file", "status", "cases"), [("no_load_mask.py", "out_of_bounds", 5),
                                                       ("right_heuristics.py", "passed", 5)])  # fmt: skip
def test_what_passes_on_a_gpu_is_looked_at_by_the_interpreter_too(made_gpu, file, status, cases):
    grading = Grading(rubric_for("gelu", file), Submission(FOLDER / "gelu"), made_gpu)
    item = next(item for item in grading.items if item.check == "ragged" and item.dtype == "float32")
    verdict = grading.grade(item).verdict
    grading.close()
    assert verdict.status == status
    assert verdict.evidence["cases"] == cases
    if status == "out_of_bounds":
        assert "load outside 'x_ptr'" in verdict.message
        assert "on this GPU the result was right all the same" in verdict.message
        assert "no mask" in verdict.hint
        assert "py" in verdict.attachments


def test_a_branch_that_does_without_the_kernel_on_a_cpu_is_named(made_gpu, tmp_path):
    body = "    if x.device.type == 'cpu':\n        return torch.nn.functional.gelu(x, approximate='tanh')\n"
    source = (FOLDER / "gelu/right_flat.py").read_text()
    start = source.index("\n", source.index("\ndef gelu(") + 1) + 1
    (tmp_path / "gelu.py").write_text(source[:start] + body + source[start:])
    grading = Grading(rubric_for("gelu", "gelu.py"), Submission(tmp_path), made_gpu)
    verdict = grading.grade(next(item for item in grading.items if item.check == "ragged")).verdict
    grading.close()
    assert verdict.status == "fallback"
    assert "right even when no kernel runs" in verdict.message
    assert "A branch that does without it where there is no GPU counts too" in verdict.hint


@pytest.mark.parametrize(
    ("statuses", "found", "calls"),
    [(["passed", "out_of_bounds", "passed"], True, 2), (["passed", "wrong_values", "out_of_bounds"], True, 3),
     (["timed_out", "out_of_bounds"], False, 1), (["not_measured", "out_of_bounds"], False, 1),
     (["passed", "passed"], False, 2)],
)  # fmt: skip
def test_only_accesses_out_of_bounds_are_taken_from_the_interpreter(statuses, found, calls):
    asked = []

    def judge(case):
        asked.append(case)
        return Verdict(Status(statuses[case]), "there")

    verdict = judge_bounds(judge, range(len(statuses)), budget_s=60.0)
    assert (verdict is not None) == found
    assert len(asked) == calls


@pytest.mark.parametrize("check", ["aligned", "compiles"])
def test_a_file_may_ask_triton_for_the_device_as_its_tutorials_do(machine, tmp_path, check):
    source = (FOLDER / "gelu/right_flat.py").read_text()
    device = "\nDEVICE = triton.runtime.driver.active.get_active_torch_device()\n"
    source = source.replace("\n\n\n@triton.jit", f"\n{device}\n\n@triton.jit", 1)
    source = source.replace("    y = torch.empty", "    assert x.device == DEVICE\n    y = torch.empty")
    assert source.count("DEVICE") == 2
    (tmp_path / "gelu.py").write_text(source)
    grading = Grading(rubric_for("gelu", "gelu.py"), Submission(tmp_path), machine)
    verdict = grading.grade(next(item for item in grading.items if item.check == check)).verdict
    grading.close()
    assert verdict.passed, verdict.message


def test_asking_the_compiler_for_a_kernel_is_not_measured_without_a_gpu(machine, tmp_path):
    source = (FOLDER / "gelu/right_flat.py").read_text()
    (tmp_path / "gelu.py").write_text(source.replace("    y = torch.empty", "    gelu_kernel.warmup(x, x, 1, BLOCK=64, "
                                                     "grid=(1,))._init_handles()\n    y = torch.empty"))  # fmt: skip
    assert "warmup" in (tmp_path / "gelu.py").read_text()
    grading = Grading(rubric_for("gelu", "gelu.py"), Submission(tmp_path), machine)
    verdict = grading.grade(next(item for item in grading.items if item.check == "aligned")).verdict
    grading.close()
    assert verdict.status == "not_measured"
    assert "kernel.warmup()" in verdict.message


def test_an_interpreter_that_takes_too_long_is_left_alone():
    asked = []
    assert judge_bounds(lambda case: asked.append(case) or Verdict(Status.PASSED), range(5), budget_s=-1.0) is None
    assert len(asked) == 1


def test_an_item_whose_worker_is_killed_in_the_middle_still_passes(machine):
    grading = Grading(rubric_for("softmax", "right_online.py"), Submission(FOLDER / "softmax"), machine)
    item = next(item for item in grading.items if item.check == "ragged" and item.dtype == "float32")
    killed = []

    def kill_once() -> None:
        deadline = time.monotonic() + 20
        while not killed and time.monotonic() < deadline:
            time.sleep(0.05)
            if kill_workers(machine):
                killed.append(True)

    killer = threading.Thread(target=kill_once)
    killer.start()
    verdict = grading.grade(item).verdict
    killer.join()
    grading.close()
    assert killed
    assert verdict.passed, verdict


def test_the_lectures_gelu_fails_extreme_only_and_the_message_says_at_which_x(machine):
    loaded = rubric_for("gelu", "lecture_gelu_any_layout.py")
    grading = Grading(loaded, Submission(FOLDER / "gelu"), machine)
    verdicts = {
        i.check: grading.grade(i).verdict for i in grading.items if i.dtype == "float32" and i.check != "compiles"
    }
    grading.close()
    assert [check for check, verdict in verdicts.items() if not verdict.passed] == ["extreme"]
    failed = verdicts["extreme"]
    assert failed.status == "not_finite"
    assert failed.message.startswith("out[")
    where = failed.message.partition(" at x[")[2].partition("] = ")[2]
    assert float(where.partition(",")[0]) > 10.3  # from there on exp(2a) overflows
    assert "overflowed" in failed.hint


def test_the_order_of_points_is_the_rubrics_and_dependents_of_a_failed_check_earn_nothing(machine):
    grading = Grading(rubric_for("gelu", "no_load_mask.py"), Submission(FOLDER / "gelu"), machine)
    wanted = [i for i in grading.items if i.dtype == "float32" and i.check in ("aligned", "ragged", "fused")]
    for item in wanted:
        grading.grade(item)
    aligned, ragged, fused = wanted
    assert grading.item_score(aligned).points > 0
    assert grading.item_score(ragged).points == 0
    assert grading._judged[fused].verdict.passed
    assert grading.item_score(fused).points == 0
    assert "no points before ragged pass" in grading._why_no_points(fused)
    grading.close()


def test_a_wrong_element_of_a_product_that_is_no_element_of_its_input_is_the_submissions(machine, tmp_path):
    right = (FOLDER / "matmul_relu/right_without_dot.py").read_text().replace("def matmul_relu(", "def right(")
    entry = """
def matmul_relu(a, b):
    c = right(a, b)
    if a.shape[1] == 1 and c.shape[1] > 5:
        c[:, 5:].fill_(-1.0)
    return c
"""
    (tmp_path / "matmul_relu.py").write_text(f"{right}\n{entry}")
    grading = Grading(
        rubric_for("matmul_relu", "matmul_relu.py", generated=0, shrink_s=0), Submission(tmp_path), machine
    )
    item = next(item for item in grading.items if item.check == "ragged" and item.dtype == "float32")
    verdict = grading.grade(item).verdict
    grading.close()
    assert verdict.status == "wrong_values", verdict
    assert verdict.message.startswith("out[0, 5] = -1, expected")


# ---------------------------------------------------------------- workers kept from one item to the next
# On a GPU they are; here the interpreter's are, to show how.


@pytest.fixture
def kept(monkeypatch):
    monkeypatch.setattr(judging, "WORTH_KEEPING", frozenset({"cpu"}))


def grading_of(machine: Machine, exercise: str, file: str) -> tuple[Grading, dict[str, Item]]:
    grading = Grading(rubric_for(exercise, file), Submission(FOLDER / exercise), machine)
    return grading, {item.check: item for item in grading.items if item.dtype == "float32"}


def forked(machine: Machine) -> int:
    return machine.interpreter._workers


def test_on_a_cpu_every_item_has_a_worker_of_its_own(machine):
    grading, items = grading_of(machine, "softmax", "right_online.py")
    before = forked(machine)
    assert all(grading.grade(items[check]).verdict.passed for check in VALUES)
    assert forked(machine) == before + len(VALUES)
    assert kill_workers(machine) == 0
    grading.close()


def test_a_worker_that_passed_an_item_judges_the_next_and_ends_with_the_grading(machine, kept):
    grading, items = grading_of(machine, "softmax", "right_online.py")
    before = forked(machine)
    assert all(grading.grade(items[check]).verdict.passed for check in VALUES)
    assert forked(machine) == before + 1
    grading.close()
    assert kill_workers(machine) == 0


def test_a_worker_that_failed_an_item_is_not_kept(machine, kept):
    grading, items = grading_of(machine, "gelu", "lecture_gelu_any_layout.py")
    before = forked(machine)
    assert not grading.grade(items["extreme"]).verdict.passed
    assert kill_workers(machine) == 0
    used = forked(machine) - before
    assert grading.grade(items["aligned"]).verdict.passed
    assert forked(machine) == before + used + 1
    grading.close()


def test_a_worker_that_died_while_it_waited_costs_the_submission_nothing(machine, kept):
    grading, items = grading_of(machine, "softmax", "right_online.py")
    assert grading.grade(items["aligned"]).verdict.passed
    assert kill_workers(machine) == 1
    assert grading.grade(items["ragged"]).verdict.passed
    grading.close()


def test_no_worker_waits_while_something_is_timed(machine, kept):
    grading, items = grading_of(machine, "softmax", "right_online.py")
    assert grading.grade(items["aligned"]).verdict.passed
    timed = next(item for item in grading.items if item.check == "speed")
    assert grading.grade(timed).verdict.status == "not_measured"
    assert kill_workers(machine) == 0
    grading.close()


def test_a_worker_of_another_exercise_makes_room(machine, kept):
    first, items = grading_of(machine, "softmax", "right_online.py")
    assert first.grade(items["aligned"]).verdict.passed
    spare = first._judging._spare
    assert spare.take("gelu") is None
    assert kill_workers(machine) == 0
    first.close()

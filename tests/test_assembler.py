"""What is wrong on a GPU through the assembler alone costs nothing; a made-up GPU, as the machine may have none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from grader import judging
from grader.assembler import ASSEMBLED_WRONG, may_be_assembled_wrong
from grader.grading import Grading
from grader.judge import REPEATS, Caller
from grader.loading import open_worker
from grader.machine import Machine
from grader.runner import Worker
from grader.submission import Submission
from grader.verdict import Status, Verdict
from tests.corpus import FOLDER, rubric_for

FILE = "right_flat.py"


def graded(machine, monkeypatch, *, interpreted, unoptimised, optimised="wrong_values"):
    """The verdict on an item, and how often it was called without optimisations, where calls end with these statuses.

    `unoptimised` has one for each call; the last one stays.
    """
    calls = []

    def observe(caller, case, _, **__):
        if caller.target.device == "cpu":
            status = interpreted
        elif caller.target.optimised:
            status = optimised
        else:
            assert caller.target.private_cache, "or it would find what is compiled already"
            calls.append(str(case))
            status = unoptimised[min(len(calls), len(unoptimised)) - 1]
        verdict = Verdict(Status(status), f"{status} in {caller.target.optimised}", case=str(case))
        return SimpleNamespace(verdict=verdict)

    monkeypatch.setattr(Machine, "torch_device", "cuda")
    monkeypatch.setattr(Caller, "observe", observe)
    monkeypatch.setattr(judging, "explain", lambda _, verdict, __: verdict)
    monkeypatch.setattr(judging, "judge_silenced", lambda *_: None)
    grading = Grading(rubric_for("gelu", FILE), Submission(FOLDER / "gelu"), machine)
    item = next(item for item in grading.items if item.check == "ragged" and item.dtype == "float32")
    verdict = grading.grade(item).verdict
    grading.close()
    return verdict, len(calls)


def test_a_kernel_that_is_right_when_not_optimised_passes_and_staff_are_told(machine, monkeypatch):
    verdict, calls = graded(machine, monkeypatch, interpreted="passed", unoptimised=["passed"])
    assert verdict.passed
    assert verdict.staff[ASSEMBLED_WRONG].startswith("wrong_values in True")
    assert calls == 1 + REPEATS + verdict.evidence["cases"], "the whole item is judged again"


@pytest.mark.parametrize(
    ("interpreted", "unoptimised", "calls"),
    [("wrong_values", ["passed"], 0), ("not_measured", ["passed"], 0), ("passed", ["wrong_values"], 1),
     ("passed", [*["passed"] * REPEATS, "wrong_values"], 1 + REPEATS)],
)  # fmt: skip
def test_a_kernel_that_is_wrong_otherwise_as_well_fails(machine, monkeypatch, interpreted, unoptimised, calls):
    verdict, made = graded(machine, monkeypatch, interpreted=interpreted, unoptimised=unoptimised)
    assert verdict.status is Status.WRONG_VALUES
    assert verdict.message.startswith("wrong_values in True")
    assert ASSEMBLED_WRONG not in verdict.staff
    assert made == calls


def test_another_fault_of_the_item_is_found_without_optimisations(machine, monkeypatch):
    unoptimised = [*["passed"] * (2 + REPEATS), "not_finite"]
    verdict, _ = graded(machine, monkeypatch, interpreted="passed", unoptimised=unoptimised)
    assert verdict.status is Status.NOT_FINITE
    assert ASSEMBLED_WRONG in verdict.staff


def test_a_failure_that_no_machine_code_makes_is_not_tried_again(machine, monkeypatch):
    verdict, calls = graded(machine, monkeypatch, interpreted="passed", unoptimised=["passed"], optimised="wrong_dtype")
    assert (verdict.status, calls) == (Status.WRONG_DTYPE, 0)


@pytest.mark.parametrize(
    ("verdict", "may_be"),
    [(Verdict(Status.WRONG_VALUES, case="c"), True), (Verdict(Status.WRONG_VALUES), False),
     (Verdict(Status.RAISED, case="c"), False), (Verdict(Status.PASSED), False),
     (Verdict(Status.OUT_OF_BOUNDS, case="c", evidence={"device_lost": True}), True),
     (Verdict(Status.CRASHED, case="c", evidence={"device_lost": True}), True)],
)  # fmt: skip
def test_wrong_results_and_illegal_accesses_may_be_the_assemblers(verdict, may_be):
    assert may_be_assembled_wrong(verdict) == may_be


@pytest.mark.parametrize("optimised", [True, False])
def test_a_worker_compiles_as_it_is_told(machine, tmp_path, optimised):
    (tmp_path / "gelu.py").write_text(
        "import os\nfrom triton import knobs\n"
        f"assert knobs.nvidia.disable_ptxas_opt is {not optimised}, os.environ\ndef gelu(x): return x\n"
    )
    sources = Submission(tmp_path).sources("gelu.py")
    worker = open_worker(machine.interpreter, sources, "gelu.py", "gelu", 20.0, optimised=optimised)
    assert isinstance(worker, Worker), worker.message
    worker.close()

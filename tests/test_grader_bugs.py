"""What graders are known to have got wrong, each as a test that this one does not.

Some are held elsewhere: a tolerance that is given is used, and large bfloat16 values are judged relative to themselves
(test_compare.py); code after `//`, harmless `try` blocks and `num_stages=2` are no findings (test_policy.py); what a
worker says of its own result counts for nothing (test_trust_line.py); a submission that hangs costs only its own item
(test_submissions.py).
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import reference
from grader import gpu_lock, judging
from grader.arena import logical_inputs
from grader.expected import expected_outputs
from grader.grading import Grading
from grader.machine import Machine
from grader.report.terminal import explain, scoreboard
from grader.result import Result
from grader.rubric import Limits
from grader.submission import Submission
from grader.verdict import Status
from tests.corpus import FOLDER, ROOT, rubric_for
from tests.test_trust_line import GRADIENT, TOLERANCES, frame, honest, verdict_on


@pytest.mark.parametrize("wrong", [None, 0, 1])
def test_each_of_several_outputs_is_judged_and_not_only_the_last(wrong):
    expected = expected_outputs(reference.load("rmsnorm"), GRADIENT, logical_inputs(GRADIENT), TOLERANCES[GRADIENT])

    def answer(message, arena):
        for number, (place, output) in enumerate(zip(message["outputs"], expected, strict=True)):
            values = output.values.float() + (1.0 if number == wrong else 0.0)
            arena[place["offset"] : place["offset"] + place["bytes"]] = values.contiguous().numpy().tobytes()
        yield frame(honest(GRADIENT))

    verdict = verdict_on(answer, GRADIENT)
    if wrong is None:
        assert verdict.status is Status.PASSED, verdict
    else:
        assert verdict.status is Status.WRONG_VALUES
        assert verdict.message.startswith(f"{expected[wrong].output.name}[")


@pytest.fixture
def broken_machine(monkeypatch):
    """A machine whose worker process ends at once, as with a broken installation."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    started = Machine(Limits(), "cpu")
    yield started
    started.close()


def test_a_setup_that_fails_is_the_graders_fault_and_leaves_a_result(broken_machine, tmp_path):
    grading = Grading(rubric_for("softmax", "right_online.py"), Submission(FOLDER / "softmax"), broken_machine)
    item = grading.items[0]
    verdict = grading.grade(item).verdict
    grading.close()
    assert verdict.status is Status.INFRASTRUCTURE_ERROR
    assert not grading.item_score(item).gradable
    grading.result().write(tmp_path / "result.json")
    written = Result.model_validate_json((tmp_path / "result.json").read_text())
    assert written.exercises["softmax"].items[0].status is Status.INFRASTRUCTURE_ERROR
    assert written.totals.gradable == 0


@pytest.fixture(scope="module")
def machine():
    started = Machine(Limits(), "cpu")
    yield started
    started.close()


def test_an_unexpected_exception_of_the_grader_is_not_booked_as_the_submissions(machine, monkeypatch):
    def run(_):
        raise ZeroDivisionError("a slip")

    monkeypatch.setattr(judging.Search, "run", run)
    grading = Grading(rubric_for("softmax", "right_online.py"), Submission(FOLDER / "softmax"), machine)
    verdict = grading.grade(grading.items[0]).verdict
    grading.close()
    assert verdict.status is Status.INFRASTRUCTURE_ERROR
    assert "ZeroDivisionError: a slip" in verdict.message
    assert "in run" in verdict.evidence["traceback"]
    assert not grading.item_score(grading.items[0]).gradable


def test_a_message_names_the_exception_its_line_and_the_input(machine):
    grading = Grading(rubric_for("softmax", "softmax.py"), Submission(FOLDER / "misbehaving/raises"), machine)
    verdict = grading.grade(grading.items[0]).verdict
    grading.close()
    assert "softmax.py:" in verdict.message
    assert "ValueError: " in verdict.message
    assert "softmax float32[" in verdict.message
    assert verdict.case


def test_the_lock_of_a_gpu_is_shared_between_processes(monkeypatch, tmp_path):
    """It was once a lock in the memory of one process."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    code = (
        "from grader.errors import InfrastructureError; from grader.gpu_lock import held\n"
        "try:\n    held('a', alone=True, timeout_s=0.1).__enter__()\n"
        "except InfrastructureError: print('refused')\nelse: print('had')"
    )
    command = [sys.executable, "-P", "-c", code]
    with gpu_lock.held("a", alone=True):
        held = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    free = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert (held.stdout.strip(), free.stdout.strip()) == ("refused", "had")


FALLS_BACK = """

def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    try:
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1], *x.stride(), BLOCK=triton.next_power_of_2(x.shape[1]))
    except RuntimeError:
        y = torch.softmax(x, -1)
    return y
"""


def test_what_is_only_suspicious_is_for_staff_and_costs_nothing(machine, tmp_path):
    """A `try` around a launch was once forbidden."""
    source = (ROOT / "tests/exploits/lookalikes/helper_beside/kernels.py").read_text()
    (tmp_path / "softmax.py").write_text(source + FALLS_BACK)
    loaded = rubric_for("softmax", "softmax.py", generated=0)
    rules = loaded.rubric.source_rules.model_copy(update={"enabled": True})
    loaded = type(loaded)(loaded.rubric.model_copy(update={"source_rules": rules}), loaded.path, loaded.sha256)
    grading = Grading(loaded, Submission(tmp_path), machine)
    item = grading.items[0]
    verdict = grading.grade(item).verdict
    grading.close()
    assert verdict.status is Status.PASSED, verdict
    assert grading.item_score(item).points == item.max_points
    assert [found["rule"] for found in verdict.staff["source"]] == ["fallback-in-except"]
    result = grading.result()
    assert result.exercises["softmax"].items[0].staff == verdict.staff
    assert "fallback" not in explain(verdict, "") + scoreboard(result, color=False)

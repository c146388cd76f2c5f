"""What a failure says in the terminal, word for word, and when nothing is said of its cause.

`UPDATE_GOLDEN=1 pytest tests/test_explanations.py` writes the texts anew; look at the difference.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

import grader.explain as explaining
import reference
from grader.diagnosis.causes import _has_mask, find_cause
from grader.diagnosis.observation import Looks
from grader.explain import explain
from grader.grading import Grading
from grader.judge import Caller, Target
from grader.judging import Selection
from grader.machine import Machine
from grader.report import terminal
from grader.submission import Sources, Submission
from reference.exercise import Case
from tests.corpus import FOLDER, rubric_for

GOLDEN = Path(__file__).parent / "golden/failures"
FAILURES = {
    "wrong_fill": ("softmax/zero_padding.py", "softmax/ragged/float32/x:4x129:normal:contiguous/5"),
    "missing_mask": ("gelu/no_load_mask.py", "gelu/ragged/float32/x:7x37:normal:contiguous/4"),
    "rounded_down_grid": ("matmul_relu/floor_grid.py",
                          "matmul_relu/ragged/float32/a:37x70:normal:contiguous,b:70x13:normal:contiguous/6"),
    "race": ("row_sum/store_in_place_of_atomic.py", "row_sum/aligned/float32/x:16x64:normal:contiguous/0"),
    "strides": ("softmax/column_stride_one.py", "softmax/strided/float32/x:5x33:normal:transposed/1"),
    "cause_not_known": ("gelu/forgot_half.py", "gelu/aligned/float32/x:1024:normal:contiguous/0"),
}  # fmt: skip
SUMS_OF_SEVEN = Case.parse("row_sum/ragged/float32/x:3x7:normal:contiguous/2")
SOFTMAX = "softmax/ragged/float32/x:3x7:normal:contiguous/2"


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_in_the_terminal(name, machine):
    path, case = FAILURES[name]
    exercise, file = path.split("/")
    selection = Selection(reproduce=case, attachments=Path("result-files"))
    grading = Grading(rubric_for(exercise, file), Submission(FOLDER / exercise), machine, selection)
    item = grading.items[0]
    verdict = grading.grade(item).verdict
    text = terminal.explain(verdict, grading.reproduce(verdict), grading.files(item)) + "\n"
    grading.close()
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.mkdir(parents=True, exist_ok=True)
        (GOLDEN / f"{name}.txt").write_text(text)
    assert text == (GOLDEN / f"{name}.txt").read_text()


def test_the_result_has_pitfall_and_attachments(machine):
    _, case = FAILURES["wrong_fill"]
    grading = Grading(rubric_for("softmax", "zero_padding.py"), Submission(FOLDER / "softmax"), machine,
                      Selection(reproduce=case, attachments=Path("/elsewhere/week1-files")))  # fmt: skip
    grading.grade(grading.items[0])
    item = grading.result().exercises["softmax"].items[0]
    grading.close()
    assert item.pitfall == "wrong_fill"
    assert item.pictures == ["week1-files/softmax-ragged-float32.svg"]
    assert item.script == "week1-files/softmax-ragged-float32.py"
    assert set(grading.attachments()["softmax-ragged-float32"]) == {"svg", "py"}


def caller(machine: Machine, source: str) -> Caller:
    sources = Sources("softmax.py", {"softmax.py": source.encode()})
    target = Target(reference.load("softmax"), sources, "softmax.py", "softmax", tf32=True, case_timeout_s=60)
    return Caller(machine.interpreter, target)


def tail_dropped(machine: Machine) -> Caller:
    """A caller of sums over whole blocks alone."""
    sources = Submission(FOLDER / "row_sum").sources("tail_dropped.py")
    target = Target(reference.load("row_sum"), sources, "tail_dropped.py", "row_sum", tf32=True, case_timeout_s=60)
    return Caller(machine.interpreter, target)


def test_two_results_of_one_case_are_a_race(machine):
    source = (FOLDER / "softmax/zero_padding.py").read_text() + (
        "\nonce = softmax\ncalls = []\n\ndef softmax(x):\n    calls.append(1)\n    return once(x) * len(calls)\n"
    )
    tolerance_for = rubric_for("softmax", "softmax.py").rubric.tolerance_for
    with caller(machine, source) as calls:
        verdict = calls.judge(Case.parse(SOFTMAX), tolerance_for(Case.parse(SOFTMAX)))
        explained = explain(calls, verdict, tolerance_for)
    assert verdict.status == "wrong_values"
    assert explained.pitfall == "race"
    assert "Two runs of this case gave different results" in explained.hint


def test_what_could_not_be_looked_at_is_not_guessed(machine):
    """That a sum ends early may be a loop over whole blocks or over one: only a larger case can tell."""
    tolerance_for = rubric_for("row_sum", "tail_dropped.py").rubric.tolerance_for
    with tail_dropped(machine) as calls:
        seen = calls.observe(SUMS_OF_SEVEN, tolerance_for(SUMS_OF_SEVEN))
        able = Looks(lambda other: calls.observe(other, tolerance_for(other)))
        assert find_cause(seen, able).pitfall == "tail_dropped"
        assert find_cause(seen, Looks(lambda _: None)) is None
        assert find_cause(seen, Looks(lambda other: calls.observe(other, tolerance_for(other)), most=1)) is None


@pytest.mark.parametrize("shape", ["2x40001", "3x32800", "2x65536"])
@pytest.mark.parametrize("exercise", ["softmax", "row_sum"])
def test_a_block_of_limited_size_is_told_from_a_loop_over_whole_ones(machine, exercise, shape):
    """Softmax writes nothing behind it, and where little is missing the rest is right."""
    case = Case.parse(f"{exercise}/ragged/float16/x:{shape}:normal:contiguous/3")
    selection = Selection(reproduce=str(case))
    grading = Grading(rubric_for(exercise, "capped_block.py"), Submission(FOLDER / exercise), machine, selection)
    verdict = grading.grade(grading.items[0]).verdict
    grading.close()
    assert verdict.pitfall == "first_block_only"
    assert f"the first 32768 of {case.tensors[0].shape[1]} terms" in verdict.hint


@pytest.mark.parametrize(("patience_s", "named"), [(8.0, "tail_dropped"), (0.0, "")])
def test_only_the_submissions_own_time_tries_the_judges_patience(machine, monkeypatch, patience_s, named):
    """A busy machine may take as long as it likes over the judge's own formulas."""
    now = [0.0]

    def after_a_minute(seen, looks):
        now[0] += 60.0
        return find_cause(seen, looks)

    monkeypatch.setattr(explaining, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(explaining, "find_cause", after_a_minute)
    monkeypatch.setattr(explaining, "PATIENCE_S", patience_s)
    tolerance_for = rubric_for("row_sum", "tail_dropped.py").rubric.tolerance_for
    with tail_dropped(machine) as calls:
        verdict = calls.judge(SUMS_OF_SEVEN, tolerance_for(SUMS_OF_SEVEN))
        assert explain(calls, verdict, tolerance_for).pitfall == named


def test_a_passed_verdict_is_left_alone(machine):
    tolerance_for = rubric_for("softmax", "softmax.py").rubric.tolerance_for
    with caller(machine, (FOLDER / "softmax/right_online.py").read_text()) as calls:
        verdict = calls.judge(Case.parse(SOFTMAX), tolerance_for(Case.parse(SOFTMAX)))
        assert verdict.passed
        assert explain(calls, verdict, tolerance_for) is verdict


@pytest.mark.parametrize(
    ("statement", "kind", "masked"),
    [("v = tl.load(x + i, i <= n, 0.0)", "load", True), ("v = tl.load(x + i)", "load", False),
     ("tl.store(y + i, v, i < n)", "store", True), ("tl.store(y + i, v)", "store", False),
     ("v = tl.load(x + i, mask=m)", "load", True), ("v = tl.load(x +", "load", False)],
)  # fmt: skip
def test_a_mask_is_one_by_its_place_too(statement, kind, masked):
    assert _has_mask(statement, kind) is masked

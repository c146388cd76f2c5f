"""Gradients, several outputs, options and optional tensors: what is called, what is expected, what is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import reference
from grader.arena import logical_inputs
from grader.compare import compare
from grader.expected import expected_outputs
from grader.grading import Grading
from grader.judging import Selection
from grader.rubric import load_rubric
from grader.submission import Submission
from reference.attention.mistakes import backward
from reference.exercise import DTYPES, Case
from tests.corpus import entries, grade, rubric_for

ENTRIES = {str(entry): entry for entry in entries()}
RUBRIC = load_rubric(Path(__file__).parent.parent / "rubric.yaml").rubric


def listed(exercise_id, check, dtype="float32"):
    for number, inputs in enumerate(reference.load(exercise_id).edge_cases(check)):
        yield Case(exercise_id, check, dtype, inputs.tensors, number, inputs.options)


def case_of(text):
    return Case.parse(text)


NO_BIAS = "flash_attention/ragged/float16/{}:normal:contiguous,{}:normal:contiguous,{}:normal:contiguous/7".format(
    "q:1x2x3x16", "k:1x2x5x16", "v:1x2x5x16"
)
WITH_BIAS = NO_BIAS.replace("/7", ",bias:1x1x3x5:normal:contiguous/7/causal=True,return_lse=True")
RMSNORM = "rmsnorm/gradient/float16/x:2x3:normal:contiguous,weight:3:normal:sliced,dout:2x3:normal:expanded/1/eps=1e-06"


# ---------------------------------------------------------------- arguments


def test_arguments_are_in_the_order_of_the_signature_with_none_and_usual_values_for_what_a_case_lacks():
    exercise = reference.load("flash_attention")
    assert exercise.bind(case_of(NO_BIAS), ["Q", "K", "V"]) == ["Q", "K", "V", False, None, False]
    assert exercise.bind(case_of(WITH_BIAS), ["Q", "K", "V", "B"]) == ["Q", "K", "V", True, "B", True]


def test_upstream_gradients_are_no_arguments():
    exercise = reference.load("rmsnorm")
    case = case_of(RMSNORM)
    assert exercise.bind(case, ["X", "W", "G"]) == ["X", "W", 1e-6]
    assert exercise.shapes(case) == [(2, 3), (3,)]
    assert [(each.name, each.shape) for each in exercise.gradients(case)] == [("dx", (2, 3)), ("dweight", (3,))]


def test_several_outputs_have_names_and_dtypes_of_their_own():
    exercise = reference.load("flash_attention")
    one, two = exercise.outputs(case_of(WITH_BIAS))
    assert (one.name, one.shape, one.dtype) == ("out", (1, 2, 3, 16), "float16")
    assert (two.name, two.shape, two.dtype) == ("lse", (1, 2, 3), "float32")
    assert [each.name for each in exercise.outputs(case_of(NO_BIAS))] == ["out"]


def test_options_survive_the_text_of_a_case_and_are_described():
    case = case_of(RMSNORM)
    assert str(case) == RMSNORM
    assert dict(case.options) == {"eps": 1e-6}
    assert case.describe().endswith("dout [2, 3] expanded, eps=1e-06, seed 1")


@pytest.mark.parametrize(
    "text",
    [
        RMSNORM.replace(",dout:2x3:normal:expanded", ""),  # a gradient without one upstream
        RMSNORM.replace("x:2x3:normal:contiguous,weight", "weight:3:normal:contiguous,x"),
        RMSNORM.replace("eps", "epsilon"),
        RMSNORM.replace("dout", "dlse"),
        WITH_BIAS.replace("bias", "mask"),
        NO_BIAS.replace("v:1x2x5x16", "w:1x2x5x16"),
    ],
)
def test_a_case_that_is_not_the_exercise_s_is_refused(text):
    case = case_of(text)
    assert not reference.load(case.exercise).takes(case)


# ---------------------------------------------------------------- what is expected


def test_the_expected_gradients_of_rmsnorm_are_those_of_its_formula():
    for case in listed("rmsnorm", "gradient"):
        exercise = reference.load("rmsnorm")
        x, weight, dout = inputs = logical_inputs(case)
        s = torch.rsqrt(x.square().mean(-1, keepdim=True) + dict(case.options)["eps"])
        dx = s * (weight * dout - x * s**2 * (x * weight * dout).mean(-1, keepdim=True))
        dweight = (dout * x * s).reshape(-1, x.shape[-1]).sum(0)
        of_x, of_weight = expected_outputs(exercise, case, inputs, RUBRIC.tolerance_for(case))
        torch.testing.assert_close(of_x.values, dx, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(of_weight.values, dweight, rtol=1e-9, atol=1e-12)


def test_the_expected_gradients_of_attention_are_those_of_its_formula_also_where_no_key_is_seen():
    exercise = reference.load("flash_attention")
    for case in listed("flash_attention", "gradient"):
        inputs = logical_inputs(case)
        upstream = inputs[len(exercise.shapes(case)) :]
        formula = [grad for grad in backward()(*exercise.bind(case, inputs), *upstream) if grad is not None]
        expected = expected_outputs(exercise, case, inputs, RUBRIC.tolerance_for(case))
        assert [each.output.name for each in expected] == ["dq", "dk", "dv", "dbias"][: len(formula)]
        for each, grad in zip(expected, formula, strict=True):
            torch.testing.assert_close(each.values, grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("exercise_id", ["rmsnorm", "flash_attention"])
@pytest.mark.parametrize("dtype", list(DTYPES))
def test_rounded_results_pass_and_five_percent_of_the_largest_off_never_does(exercise_id, dtype):
    exercise = reference.load(exercise_id)
    for check in ("ragged", "extreme", "gradient"):
        for case in listed(exercise_id, check, dtype):
            for each in expected_outputs(exercise, case, logical_inputs(case), RUBRIC.tolerance_for(case)):
                rounded = each.values.to(DTYPES[each.output.dtype])
                assert compare(rounded, each.values, each.allowed) is None, (str(case), each.output.name)
                finite = each.values[each.values.isfinite()]
                if finite.numel() > 1 and finite.abs().max() > 1e-3:
                    off = rounded + 0.05 * float(finite.abs().max())
                    assert compare(off.to(rounded.dtype), each.values, each.allowed), (str(case), each.output.name)


# ---------------------------------------------------------------- what is said


@pytest.mark.parametrize(
    ("entry", "check", "message", "hint"),
    [
        ("rmsnorm-not_differentiable", "gradient", "the result has no gradient: it does not require grad", "apply"),
        ("rmsnorm-no_gradient_of_weight", "gradient", "the result has no gradient: dweight is NoneType", "for each"),
        ("rmsnorm-dx_without_mean", "gradient", "dx[0, 0] = ", "s is taken for a constant"),
        (
            "rmsnorm-dweight_of_the_last_row",
            "gradient",
            "dweight[0] = ",
            "that another program of the same launch stored",
        ),
        ("rmsnorm-writes_dx_over_the_gradient", "gradient", "the input 'dout' was changed", "new tensor"),
        ("rmsnorm-torch_backward", "gradient", "PyTorch's mul worked on", "Triton kernel"),
        ("rmsnorm-squares_in_16_bits", "extreme", "out[0, 0] = -0, ", "convert to float32 before squaring"),
        ("flash_attention-lse_base_two", "ragged", "lse[0, 0, 0] = ", "base 2, not the natural one"),
        ("flash_attention-causal_top_left", "ragged", "out[0, 0, 0, 0] = ", "starts at the first key"),
        ("flash_attention-accumulator_not_rescaled", "aligned", "out[0, ", "is not rescaled"),
        ("flash_attention-no_d", "gradient", "dq[0, 0, 0, 0] = ", "the term −P·D"),
        ("flash_attention-whole_score_matrix", "fused", "the call allocates 271360 bytes, allowed 65536", "registers"),
    ],
)
def test_a_failure_names_the_output_and_the_mistake(machine, entry, check, message, hint):
    found = grade(ENTRIES[entry], machine, ["float16"], [check], generated=0, shrink_s=0.01)[check, "float16"]
    assert found.message.startswith(message), found.message
    assert hint in found.hint, found.hint


def test_a_wrong_gradient_can_be_shown_again(machine):
    entry = ENTRIES["rmsnorm-dx_without_mean"]
    first = grade(entry, machine, ["float16"], ["gradient"], generated=2)["gradient", "float16"]
    rubric = rubric_for(entry.exercise, entry.file)
    again = Grading(rubric, Submission(entry.folder), machine, Selection(reproduce=first.case))
    assert [again.grade(item).verdict.message for item in again.items] == [first.message]
    again.close()

"""Outputs that need no kernel fail every check of values and gradients: zeros, a constant, the input, old memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import reference
from grader.adequacy.power import kernel_exercises
from grader.arena import logical_inputs
from grader.compare import compare
from grader.expected import Expected, expected_outputs
from grader.rubric import load_rubric
from reference.exercise import DTYPES, VALUE_CHECKS, Case
from tests.corpus import ROOT

LOADED = load_rubric(ROOT / "rubric.yaml")
EXERCISES = kernel_exercises(LOADED, [])


def filled(value: float):
    return lambda shape, inputs, previous: torch.full(shape, value, dtype=torch.float64)


def repeated(values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The values again and again until the shape is full."""
    flat, numel = values.reshape(-1), torch.Size(shape).numel()
    return flat.repeat(-(-numel // flat.numel()))[:numel].reshape(shape)


def memory(byte: int):
    """Memory that nothing was written to: one byte everywhere, in the output's dtype."""
    return lambda dtype, shape: torch.full((torch.Size(shape).numel() * dtype.itemsize,), byte, dtype=torch.uint8).view(
        dtype
    ).reshape(shape)  # fmt: skip


DEGENERATE = {
    "zeros": filled(0.0),
    "ones": filled(1.0),
    "nan": filled(float("nan")),
    "input": lambda shape, inputs, previous: repeated(inputs[0], shape),
    "mean": lambda shape, inputs, previous: torch.full(shape, float(inputs[0].nan_to_num(0, 0, 0).mean())).double(),
    "previous": lambda shape, inputs, previous: repeated(previous, shape),
}


def listed(exercise_id: str, check: str, dtype: str):
    """The listed cases with what they give: inputs and expected outputs."""
    exercise = reference.load(exercise_id)
    for index, inputs in enumerate(exercise.edge_cases(check)):
        case = Case(exercise_id, check, dtype, inputs.tensors, index, inputs.options)
        tensors = logical_inputs(case)
        yield case, tensors, expected_outputs(exercise, case, tensors, LOADED.rubric.tolerance_for(case))


def passes(values: Tensor, expected: list[Expected], number: int) -> bool:
    wanted = expected[number]
    return compare(values.to(DTYPES[wanted.output.dtype]), wanted.values, wanted.allowed) is None


def checks_of(exercise_id: str):
    return [check for check in (*VALUE_CHECKS, "gradient") if check in reference.load(exercise_id).checks]


ITEMS = [(exercise, check) for exercise in EXERCISES for check in checks_of(exercise)]


@pytest.mark.parametrize(
    "dtype", [pytest.param(dtype, marks=[] if dtype == "float16" else [pytest.mark.slow]) for dtype in DTYPES]
)
@pytest.mark.parametrize(("exercise", "check"), ITEMS)
def test_outputs_that_need_no_kernel_fail(exercise: str, check: str, dtype: str):
    cases = list(listed(exercise, check, dtype))
    accepted: dict[str, list[str]] = {}
    for position, (case, tensors, expected) in enumerate(cases):
        before = cases[position - 1][2]
        for kind, make in DEGENERATE.items():
            outputs = [make(each.output.shape, tensors, before[min(n, len(before) - 1)].values)
                       for n, each in enumerate(expected)]  # fmt: skip
            if all(passes(values, expected, number) for number, values in enumerate(outputs)):
                accepted.setdefault(kind, []).append(case.describe())
        for byte in (0, 0x5A, 0xFF):
            outputs = [memory(byte)(DTYPES[each.output.dtype], each.output.shape) for each in expected]
            if all(passes(values, expected, number) for number, values in enumerate(outputs)):
                accepted.setdefault(f"memory {byte:#x}", []).append(case.describe())
    # A softmax of one number is 1, and a sum of one number is that number: there such an output is right.
    assert {kind: names for kind, names in accepted.items() if len(names) == len(cases)} == {}
    assert {case for names in accepted.values() for case in names} <= {
        case.describe() for case, _, _ in cases if case.tensors[0].shape[-1] == 1
    }

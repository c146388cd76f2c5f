"""Comparison: what a correct kernel may be off by, and what no kernel may."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from grader.arena import logical_inputs
from grader.compare import allowed_error, compare, default_tolerance
from grader.expected import expected_outputs
from grader.rubric import load_rubric
from reference.exercise import DTYPES, Case

RUBRIC = load_rubric(Path(__file__).parent.parent / "rubric.yaml").rubric
names = st.sampled_from(list(DTYPES))


def bound(expected, scale=None, dtype="float32", length=1, tf32=False):
    tolerance = default_tolerance(dtype, length, tf32=tf32)
    return allowed_error(expected, scale if scale is not None else expected.abs(), None, tolerance)


@given(names, st.lists(st.floats(-6e4, 6e4), min_size=1, max_size=20))
def test_the_rounded_oracle_always_passes(name, values):
    expected = torch.tensor(values, dtype=torch.float64)
    assert compare(expected.to(DTYPES[name]), expected, bound(expected, dtype=name)) is None


@given(names, st.lists(st.floats(-6e4, 6e4), min_size=2, max_size=20), st.data())
def test_one_element_off_by_more_than_allowed_is_found_and_named(name, values, data):
    expected = torch.tensor(values, dtype=torch.float64)
    allowed = bound(expected, dtype=name)
    index = data.draw(st.integers(0, len(values) - 1))
    output = expected.to(DTYPES[name])
    output[index] += 3 * allowed[index] + 1e-3 + 8 * DTYPES[name].itemsize * abs(values[index]) * 2**-7
    mismatch = compare(output, expected, allowed)
    assert mismatch is not None
    assert (mismatch.index, mismatch.wrong, mismatch.total) == ((index,), 1, len(values))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_inf_are_not_finite_where_a_number_is_expected(value):
    expected = torch.ones(3, dtype=torch.float64)
    mismatch = compare(torch.tensor([1.0, value, 1.0]), expected, bound(expected))
    assert mismatch is not None
    assert not mismatch.finite
    assert mismatch.index == (1,)


def test_nan_is_right_exactly_where_the_oracle_has_it():
    expected = torch.tensor([math.nan, 1.0], dtype=torch.float64)
    assert compare(torch.tensor([math.nan, 1.0]), expected, bound(expected)) is None
    assert compare(torch.tensor([0.0, 1.0]), expected, bound(expected)).index == (0,)


def test_infinity_is_right_where_the_oracle_has_it_with_its_sign():
    expected = torch.tensor([math.inf, -math.inf], dtype=torch.float64)
    assert compare(torch.tensor([math.inf, -math.inf]), expected, bound(expected)) is None
    assert compare(torch.tensor([math.inf, math.inf]), expected, bound(expected)).index == (1,)


def test_beyond_the_range_of_float16_infinity_and_the_largest_number_are_right():
    expected = torch.tensor([7e4, 7e4, -7e4], dtype=torch.float64)
    good = torch.tensor([math.inf, 65504.0, -math.inf], dtype=torch.float16)
    assert compare(good, expected, bound(expected, dtype="float16")) is None
    bad = torch.tensor([-math.inf, 65504.0, 100.0], dtype=torch.float16)
    assert compare(bad, expected, bound(expected, dtype="float16")).wrong == 2


def test_the_first_not_finite_element_is_named_before_other_wrong_ones():
    expected = torch.ones(4, dtype=torch.float64)
    mismatch = compare(torch.tensor([5.0, 1.0, math.nan, 1.0]), expected, bound(expected))
    assert (mismatch.index, mismatch.wrong) == ((2,), 2)


def test_a_tolerance_that_is_given_is_used():
    expected = torch.full((2,), 100.0, dtype=torch.float64)
    off = expected.to(torch.float32) * (1 + 1e-3)
    assert compare(off, expected, torch.full((2,), 1.0, dtype=torch.float64)) is None
    assert compare(off, expected, torch.full((2,), 0.01, dtype=torch.float64)) is not None


def test_large_bfloat16_values_are_judged_relative_to_themselves():
    expected = torch.tensor([1000.3], dtype=torch.float64)
    assert compare(expected.to(torch.bfloat16), expected, bound(expected, dtype="bfloat16")) is None
    assert compare(torch.tensor([1040.0], dtype=torch.bfloat16), expected, bound(expected, dtype="bfloat16"))


def degenerate(name: str, inputs: list[torch.Tensor], shape: tuple[int, ...]) -> torch.Tensor:
    if name == "nan":
        return torch.full(shape, math.nan)
    if name == "zeros":
        return torch.zeros(shape)
    if name == "ones":
        return torch.ones(shape)
    if name == "mean":
        return torch.full(shape, float(inputs[0].mean()))
    flat = inputs[0].flatten().to(torch.float32)
    return flat.repeat(math.ceil(math.prod(shape) / flat.numel()))[: math.prod(shape)].reshape(shape)


@pytest.mark.parametrize("output", ["zeros", "ones", "mean", "input", "nan"])
@pytest.mark.parametrize("dtype", list(DTYPES))
@pytest.mark.parametrize("exercise_id", reference.kernel_exercise_ids())
def test_no_check_passes_a_degenerate_output(exercise_id, dtype, output):
    exercise = reference.load(exercise_id)
    for check in exercise.checks:
        caught: dict[str, bool] = {}
        for number, listed in enumerate(exercise.edge_cases(check)):
            case = Case(exercise_id, check, dtype, listed.tensors, number, listed.options)
            inputs = logical_inputs(case)
            for expected in expected_outputs(exercise, case, inputs, RUBRIC.tolerance_for(case)):
                name = expected.output.name
                wrong = degenerate(output, inputs, expected.output.shape).to(DTYPES[expected.output.dtype])
                caught[name] = caught.get(name, False) or compare(wrong, expected.values, expected.allowed) is not None
        assert all(caught.values()), f"{check} of {exercise_id} would pass {output}: {caught}"

"""The arena: inputs arrive as the case says, and every byte that changes around them is seen."""

from __future__ import annotations

import mmap
import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from grader.arena import Arena, HostMemory, find_damage, logical_inputs, output_capacity, read_output
from grader.errors import InfrastructureError
from reference.exercise import DTYPES, LAYOUTS, Case, TensorSpec

shapes = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)


@st.composite
def specs(draw, name="x"):
    shape = draw(shapes)
    least = {"transposed": 2, "transposed_padded": 2, "heads_inside": 4}
    layouts = [layout for layout in LAYOUTS if len(shape) >= least.get(layout, 0)]
    return TensorSpec(name, shape, "shifted", draw(st.sampled_from(layouts)))


@st.composite
def cases(draw):
    tensors = (draw(specs("x")), draw(specs("y")))
    return Case("gelu", "strided", draw(st.sampled_from(list(DTYPES))), tensors, draw(st.integers(0, 99)))


@pytest.fixture(scope="module")
def arena():
    made = Arena(HostMemory(1 << 20))
    yield made
    made.close()


def view(seen: bytes, placed) -> torch.Tensor:
    dtype = DTYPES[placed.dtype]
    flat = torch.frombuffer(bytearray(seen), dtype=dtype)
    return torch.as_strided(flat, placed.spec.shape, placed.strides, placed.view_offset // dtype.itemsize)


@given(cases())
def test_views_hold_the_oracles_inputs(arena, case):
    laid = arena.lay(case, 256)
    seen = arena.read(laid)
    for placed, expected in zip(laid.inputs, logical_inputs(case), strict=True):
        assert torch.equal(view(seen, placed).to(torch.float64), expected)


@given(cases())
def test_everything_that_is_no_element_reads_as_nan(arena, case):
    laid = arena.lay(case, 256)
    blank = bytearray(arena.read(laid))
    elements = sum(spec.geometry().storage_size for spec in case.tensors)
    words = torch.frombuffer(blank, dtype=DTYPES[case.dtype])
    assert int(torch.isfinite(words).sum()) <= elements
    assert bool(torch.isnan(words[: laid.inputs[0].start // DTYPES[case.dtype].itemsize]).all())


@given(cases(), st.data())
def test_any_changed_byte_outside_the_output_is_damage(arena, case, data):
    laid = arena.lay(case, 256)
    seen = bytearray(arena.read(laid))
    position = data.draw(st.integers(0, len(seen) - 1))
    inside_output = laid.output_offset <= position < laid.output_offset + laid.output_capacity
    seen[position] ^= 0x10
    damage = find_damage(laid, bytes(seen))
    assert (damage is None) == inside_output


@given(cases(), st.data())
def test_a_changed_element_names_its_argument(arena, case, data):
    laid = arena.lay(case, 256)
    seen = bytearray(arena.read(laid))
    placed = data.draw(st.sampled_from(laid.inputs))
    index = tuple(data.draw(st.integers(0, size - 1)) for size in placed.spec.shape)
    offset = sum(i * stride for i, stride in zip(index, placed.strides, strict=True))
    seen[placed.view_offset + offset * DTYPES[placed.dtype].itemsize] ^= 1
    damage = find_damage(laid, bytes(seen))
    assert damage is not None
    assert damage.in_elements
    assert damage.argument == placed.spec.name


def test_a_write_into_the_gap_between_rows_is_not_an_element(arena):
    laid = arena.lay(Case("gelu", "strided", "float32", (TensorSpec("x", (3, 4), "normal", "padded"),)), 64)
    seen = bytearray(arena.read(laid))
    seen[laid.inputs[0].start + 4 * 4] ^= 1  # column 4 of row 0
    damage = find_damage(laid, bytes(seen))
    assert damage is not None
    assert (damage.argument, damage.in_elements) == ("x", False)


def test_outputs_are_read_where_the_worker_was_told_to_put_them(arena):
    laid = arena.lay(Case("gelu", "aligned", "float32", (TensorSpec("x", (4,)),)), output_capacity([100, 8]))
    seen = bytearray(arena.read(laid))
    seen[laid.output_offset : laid.output_offset + 100] = b"a" * 100
    seen[laid.output_offset + 256 : laid.output_offset + 264] = b"b" * 8
    assert find_damage(laid, bytes(seen)) is None
    assert read_output(laid, bytes(seen), [100, 8]) == [b"a" * 100, b"b" * 8]


def test_an_unwritten_output_is_nan_in_every_dtype(arena):
    for dtype in DTYPES.values():
        laid = arena.lay(Case("gelu", "aligned", "float32", (TensorSpec("x", (4,)),)), 64)
        data = read_output(laid, arena.read(laid), [64])[0]
        assert bool(torch.isnan(torch.frombuffer(bytearray(data), dtype=dtype)).all())


def test_the_worker_can_not_shrink_or_grow_the_arena(arena):
    for size in (0, arena.size * 2):
        with pytest.raises(PermissionError):
            os.ftruncate(arena.fd, size)


def test_a_late_write_does_not_change_what_is_judged(arena):
    laid = arena.lay(Case("gelu", "aligned", "float32", (TensorSpec("x", (4,)),)), 64)
    seen = arena.read(laid)
    with mmap.mmap(arena.fd, arena.size) as theirs:
        theirs[laid.output_offset : laid.output_offset + 4] = b"late"
    assert find_damage(laid, seen) is None
    assert b"late" not in seen


def test_a_case_larger_than_the_arena_is_a_fault_of_the_grader(arena):
    with pytest.raises(InfrastructureError, match="bytes of arena"):
        arena.lay(Case("gelu", "aligned", "float32", (TensorSpec("x", (1 << 20,)),)), 64)


@pytest.mark.parametrize("exercise_id", reference.kernel_exercise_ids())
def test_every_listed_case_survives_its_text(exercise_id):
    exercise = reference.load(exercise_id)
    for check in exercise.checks:
        for listed in exercise.edge_cases(check):
            case = Case(exercise_id, check, "float16", listed.tensors, 3, listed.options)
            assert Case.parse(str(case)) == case
            assert exercise.takes(case)


@given(cases())
def test_case_text_and_parse_are_inverse(case):
    assert Case.parse(str(case)) == case


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gelu",
        "gelu/ragged/float32/x:3:normal:spiral/0",
        "a/b/c/d/e/f/g",
        "gelu/ragged/float32/x:0x:normal:padded/0",
        "gelu/ragged/int8/x:3:normal:padded/0",
    ],
)
def test_a_text_that_is_no_case_is_refused(text):
    with pytest.raises(ValueError, match="is not of the form"):
        Case.parse(text)

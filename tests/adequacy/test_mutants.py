"""What faults are put in: one at a time, all different, each mutator as it says, a choice that stays the same."""

from __future__ import annotations

from collections import Counter

import pytest

from grader.adequacy.equivalent import EquivalentsError, Mark, read_marks, sort_out
from grader.adequacy.faults import MUTATORS
from grader.adequacy.mutants import mutants_of, spread
from grader.adequacy.power import kernel_exercises, sorted_mutants
from grader.rubric import load_rubric
from tests.corpus import ROOT

EXERCISES = kernel_exercises(load_rubric(ROOT / "rubric.yaml"), [])

KERNEL = '''
import torch

OUTSIDE = 1.5
# solution: begin
@triton.jit
def kernel(x_ptr, y_ptr, M, N, x_stride_m, x_stride_n, BLOCK: tl.constexpr):
    """Two lines of a dοcstring, not ASCII, before what is changed."""
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((1, BLOCK), tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)[None, :]
        x = tl.load(x_ptr + row * x_stride_m + cols * x_stride_n, mask=(row < M) & (cols < N), other=0.0).to(tl.float32)
        if BLOCK:
            x = tl.where(x > 0.5, x.T, tl.exp(x - 1.0))
        total += tl.dot(x, x, total)
    total = tl.maximum(tl.sum(total, axis=1), 0.0)
    tl.atomic_add(y_ptr, total, mask=row < M, sem="relaxed")
    tl.store(y_ptr + row, total.to(y_ptr.dtype.element_ty), mask=row < M)


def launch(x):
    y = torch.empty_like(x)
    z = torch.empty(3, dtype=x.dtype).zero_()
    kernel[(triton.cdiv(x.shape[0], 4),)](x, y, *x.shape, *x.stride(), BLOCK=16)
# solution: end
'''
# For each mutator one fault that it makes of KERNEL: what is added to the source.
FAULTS = {
    "drop_mask": 'tl.atomic_add(y_ptr, total, sem="relaxed")',
    "half_mask": "mask=(cols < N)",
    "comparison": "mask=(row < M) & (cols <= N)",
    "bound_off_by_one": "mask=(row < M) & (cols < N - 1)",
    "drop_other": "mask=(row < M) & (cols < N)).to(tl.float32)",
    "change_other": "other=1.0",
    "stride_one": "cols * 1",
    "swapped_stride": "cols * x_stride_m",
    "offsets_32_bits": "row = tl.program_id(0)\n",
    "drop_cast": "other=0.0)\n",
    "accumulator_dtype": "total = (total + tl.dot(x, x, total)).to(y_ptr.dtype.element_ty).to(tl.float32)",
    "low_precision_sum": "tl.sum(total.to(y_ptr.dtype.element_ty), axis=1)",
    "drop_term": "tl.exp(x)",
    "drop_factor": "+ row + cols * x_stride_n",
    "drop_update": "        pass\n    total",
    "keep_last_part": "total = tl.dot(x, x, total)",
    "change_constant": "tl.exp(x - 1.01)",
    "drop_bound": "total = tl.sum(total, axis=1)\n",
    "drop_choice": "x = tl.exp(x - 1.0)\n",
    "other_branch": "if not BLOCK:",
    "other_function": "tl.exp2(x - 1.0)",
    "wrong_axis": "tl.sum(total, axis=0)",
    "wrong_program_axis": "tl.program_id(1)",
    "loop_bounds": "range(0, N - BLOCK, BLOCK)",
    "first_tile_only": "& (tl.program_id(0) == 0)",
    "missing_atomic": "tl.store(y_ptr, total, mask=row < M)\n",
    "drop_transpose": "tl.where(x > 0.5, x, tl.exp",
    "floor_division": "(x.shape[0] // 4)",
    "fewer_programs": "max(1, triton.cdiv(x.shape[0], 4) - 1)",
    "wrong_strides": "*x.stride()[::-1]",
    "result_dtype": "torch.empty(3, dtype=torch.float32)",
    "result_is_input": "y = x\n",
    "not_zeroed": "z = torch.empty(3, dtype=x.dtype)\n",
}


@pytest.mark.parametrize("mutator", MUTATORS)
def test_each_mutator_makes_its_fault(mutator: str):
    assert FAULTS[mutator] not in KERNEL
    made = [mutant.source for mutant in mutants_of("sample", KERNEL) if mutant.mutator == mutator]
    assert any(FAULTS[mutator] in source for source in made)


def test_nothing_outside_the_marks_is_changed():
    assert all("OUTSIDE = 1.5\n" in mutant.source for mutant in mutants_of("sample", KERNEL))


@pytest.mark.parametrize("exercise", EXERCISES)
def test_each_mutant_has_one_fault_and_is_unlike_the_others(exercise: str):
    text = (ROOT / "reference/solutions" / f"{exercise}.py").read_text()
    mutants = mutants_of(exercise, text)
    assert len({mutant.source for mutant in mutants} | {text}) == len(mutants) + 1
    for mutant in mutants:
        assert mutant.diff.count("@@ -") == 1, mutant.diff
        assert mutant.diff.splitlines()[0].startswith(f"@@ -{mutant.line}"), mutant.diff


def test_there_are_enough_mutants_to_grade():
    policy = load_rubric(ROOT / "rubric.yaml").rubric.adequacy
    graded = {name: spread(sorted_mutants(ROOT, name).to_grade, policy.mutants) for name in EXERCISES}
    assert min(len(mutants) for mutants in graded.values()) >= 15
    assert sum(len(mutants) for mutants in graded.values()) >= 150


def test_the_choice_has_every_kind_and_does_not_depend_on_lines():
    mutants = mutants_of("sample", KERNEL)
    kinds = {mutant.mutator for mutant in mutants}
    chosen = spread(mutants, len(kinds) + 5)
    assert {mutant.mutator for mutant in chosen} == kinds
    assert max(Counter(mutant.mutator for mutant in chosen).values()) == 2
    moved = spread(mutants_of("sample", "# one line more\n" + KERNEL), len(kinds) + 5)
    assert [mutant.key for mutant in moved] == [mutant.key for mutant in chosen]


@pytest.mark.parametrize("exercise", EXERCISES)
def test_every_mark_fits_a_mutant(exercise: str):
    assert sorted_mutants(ROOT, exercise).stale == []


def test_a_mark_that_fits_nothing_is_stale_and_narrow_marks_spare_the_rest():
    mutants = mutants_of("sample", KERNEL)
    mark = Mark.model_validate({"reason": "r", "mutator": "drop_mask", "in": "kernel", "line": "tl.store"})
    parted = sort_out(mutants, [mark, mark.model_copy(update={"line": "tl.stare"})])
    assert [mutant.line for mutant, _ in parted.marked] == [19]
    assert len(parted.to_grade) == len(mutants) - 1
    assert [stale.line for stale in parted.stale] == ["tl.stare"]
    branch = Mark.model_validate({"reason": "r", "within": "if BLOCK"})
    assert {mutant.line for mutant, _ in sort_out(mutants, [branch]).marked} == {15}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gelu:\n  - mutator: drop_mask\n", "reason"),
        ("gelu:\n  - {reason: r, lien: x}\n", "lien"),
        ("- gelu\n", "is not a mapping"),
        ("gelu: [\n", "is not a mapping"),
    ],
)
def test_a_file_of_marks_that_is_wrong_is_named(tmp_path, text: str, says: str):
    path = tmp_path / "equivalent.yaml"
    path.write_text(text)
    with pytest.raises(EquivalentsError, match=says) as caught:
        read_marks(path)
    assert str(path) in str(caught.value)

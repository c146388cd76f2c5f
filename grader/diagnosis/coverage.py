"""Which part of the work was not done: elements never written, terms never summed. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import torch
from torch import Tensor

from reference.exercise import Case

from ..expected import expected_outputs
from .observation import Looks, Observation, WrongOutput
from .pitfalls import Hint, hint


def unwritten(seen: Observation, looks: Looks) -> Hint | None:
    """Elements that still have what their memory was filled with: NaN, as new memory is here, or 0."""
    wrong = _all_filled(seen)
    if wrong is None:
        return None
    if _nothing(wrong):
        larger = looks.failing(seen)
        of_larger = None if larger is None else _all_filled(larger)
        if larger is not None and (of_larger is None or not _nothing(of_larger)):
            return unwritten(larger, looks) if of_larger is not None else None
        if larger is not None:
            return hint("unwritten_output", "No element of the result was written: all are as in new memory.")
        if wrong.stored is None:
            return None
    return _partly(seen, wrong, looks) if wrong.stored is not None else None


def _all_filled(seen: Observation) -> WrongOutput | None:
    """The wrong output, where all that is wrong in it was never stored to, as far as that is known."""
    wrong = seen.wrong_output()
    if wrong is None or (wrong.stored is not None and wrong.stored + _count(wrong) > wrong.values.numel()):
        return None
    bad = wrong.values[wrong.wrong]
    if not bool(bad.isnan().all()) and not bool((bad == 0).all()):
        return None
    return wrong


def _nothing(wrong: WrongOutput) -> bool:
    """Whether no element shows that anything was stored."""
    if wrong.stored == 0:
        return True
    could_show = wrong.expected.values.abs() > wrong.expected.allowed
    return wrong.stored is None and bool(wrong.wrong[could_show].all())


def _partly(seen: Observation, wrong: WrongOutput, looks: Looks) -> Hint | None:
    missing = _may_be_unwritten(wrong)
    grid = _grid(seen)
    flat, shape = missing.flatten(), missing.shape
    count = flat.numel()
    first = int(wrong.wrong.flatten().to(torch.uint8).argmax())
    last = count - 1 - int(wrong.wrong.flatten().flip(0).to(torch.uint8).argmax())
    if not bool(missing[-1:].any()) and bool(flat[: last + 1].all()):
        return hint("grid_off_by_one", f"The first {last + 1} elements were never written.")
    ends = {axis: start for axis in range(len(shape)) if (start := _tail(missing, axis)) < shape[axis]}
    in_a_row = bool(flat[first:].all())
    if not in_a_row and not (ends and _covered_by(ends, wrong.wrong)):
        return hint("unwritten_output", f"{_count(wrong)} elements were never written.")
    larger = looks.failing(seen)
    also = None if larger is None else _all_filled(larger)
    if larger is not None:
        # Even where blocks divide the sizes, so it is not about a last block that is not whole.
        if also is None:
            return None
        if _grid(larger) in (1, larger.expected[also.number].output.shape[0]) and not _nothing(also):
            start = int(also.wrong.flatten().to(torch.uint8).argmax())
            return hint("first_block_only", f"Only {start} elements were written, one block of them.")
        return _partly(larger, also, looks) if larger.case != seen.case and not _nothing(also) else None
    rows = shape[0]
    by_rows = len(shape) > 1 and grid == rows and seen.reduces
    if by_rows and (bool(missing.all()) or 0 not in ends):
        return hint("tail_unwritten", "The last block, which is not a whole one, was never written.")
    lost = count - first if in_a_row else _count(wrong)
    return hint(
        "grid_off_by_one", f"The number of programs is rounded down: {lost} elements at the end were never written."
    )


def _count(wrong: WrongOutput) -> int:
    return int(wrong.wrong.sum())


def _may_be_unwritten(wrong: WrongOutput) -> Tensor:
    """Elements that are wrong, or that would be right even if they had never been written."""
    return wrong.wrong | ((wrong.values == 0) & (wrong.expected.values.abs() <= wrong.expected.allowed))


def _tail(missing: Tensor, axis: int) -> int:
    """From which index on everything along an axis is missing."""
    whole = missing.movedim(axis, 0).flatten(1).all(1) if missing.dim() > 1 else missing
    here = (~whole).nonzero()
    return int(here[-1]) + 1 if here.numel() else 0


def _covered_by(ends: dict[int, int], wrong: Tensor) -> bool:
    """Whether all that is wrong lies behind one of the ends."""
    rest = wrong.clone()
    for axis, start in ends.items():
        rest.narrow(axis, start, rest.shape[axis] - start).fill_(False)
    return not bool(rest.any())


def _grid(seen: Observation) -> int:
    """Programs of the last launch, 0 where it is not known."""
    launches = seen.facts.get("launches") or []
    grid = launches[-1]["grid"] if launches else [0]
    return int(torch.tensor(grid).prod())


def truncated(seen: Observation, looks: Looks) -> Hint | None:
    """A reduction over the first terms only: the output is right for inputs that end there."""
    kept = _kept(seen)
    if kept is None:
        return None
    length = seen.case.tensors[0].shape[-1]
    larger = looks.failing(seen)
    if larger is not None:
        of_larger = _kept(larger)
        return _one_block(of_larger, larger.case.tensors[0].shape[-1]) if of_larger else None
    # Of two whole parts as long the second counts as well, unless one block is all there is.
    if kept and _kept(looks.at(_resized(seen.case, length, 2 * kept))) == kept:
        return _one_block(kept, length)
    return hint(
        "tail_dropped", f"The result is that of the first {kept} of {length} terms of each sum, the whole blocks."
    )


def _one_block(kept: int, length: int) -> Hint:
    return hint("first_block_only", f"The result is that of the first {kept} of {length} terms of each sum.")


def _resized(case: Case, length: int, to: int) -> Case:
    """The case with every size of one length changed."""
    return replace(case, tensors=tuple(
        replace(spec, shape=tuple(to if size == length else size for size in spec.shape)) for spec in case.tensors
    ))  # fmt: skip


def _kept(seen: Observation) -> int | None:
    """How many terms of each sum count, where it is not all of them."""
    wrong = seen.wrong_output()
    exercise, case = seen.exercise, seen.case
    if wrong is None or exercise.gradients(case) or not seen.reduces:
        return None
    first = seen.inputs[0]
    length = first.shape[-1]
    for fill in (0.0, -inf):
        for kept in _ends(length):
            cut = first.clone()
            cut[..., kept:] = fill
            inputs = [cut, *seen.inputs[1:]]
            values = expected_outputs(exercise, case, inputs, wrong.expected.tolerance)[wrong.number].values
            if kept == 0 and fill == 0 and wrong.stored == wrong.values.numel() and wrong.explained_by(values):
                return kept
            own = ~values.isnan()
            if wrong.telling(values, own):
                return kept
            if values.shape == first.shape:  # each element has its own term, and those may never have been written
                own[..., kept:] = False
                ends_there = bool(own.any()) and bool(wrong.values[..., kept:].isnan().all())
                if wrong.telling(values, own) or (ends_there and wrong.agrees_with(values, own)):
                    return kept
    return None


def _ends(length: int) -> Iterator[int]:
    """Where whole blocks of a usual size end, the longest part first."""
    blocks = [1 << power for power in range(17)]
    ends = {length // block * block for block in blocks} | {block for block in blocks if block < length}
    yield from sorted((end for end in ends if end < length), reverse=True)

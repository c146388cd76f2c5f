"""Outputs that equal what another formula, another axis or other strides give: proof by value. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from reference.exercise import Mistake, TensorSpec

from ..arena import storage_of
from ..expected import expected_outputs, mistakes_of, wrong_outputs
from ..verdict import Status
from .observation import Looks, Observation, WrongOutput, listed
from .pitfalls import ADVICE, Hint, explained, hint, pitfall_of

Strides = tuple[int, ...]


def mistake(seen: Observation, looks: Looks) -> Hint | None:
    """The exercise's mistake that the output equals. Where several fit, or by chance, a larger case decides."""
    wrong = seen.wrong_output()
    if wrong is None:
        return None
    fitting = _fitting(seen, wrong)
    if fitting and (len({pitfall_of(name) for name in fitting}) > 1 or not any(fitting.values())):
        larger = _larger(seen, looks)
        also = larger.wrong_output() if larger is not None else None
        if larger is not None and also is not None:
            of_larger = _fitting(larger, also)
            telling = any(of_larger.values())
            shown = {pitfall_of(name) for name, count in of_larger.items() if count or not telling}
            fitting = {name: count for name, count in fitting.items() if pitfall_of(name) in shown}
    pitfalls = {pitfall_of(name) for name in fitting}
    if len(pitfalls) != 1:
        return None
    says = mistakes_of(seen.exercise, seen.case)[next(iter(fitting))].says
    advice = f" {ADVICE[name]}" if (name := pitfalls.pop()) in ADVICE else ""
    return Hint(name if explained(name) else "", f"The values equal those of a known mistake: {says}.{advice}")


def _fitting(seen: Observation, wrong: WrongOutput) -> dict[str, int]:
    """Mistakes that the output equals, with the number of elements that tell."""
    found = {}
    for name, each in mistakes_of(seen.exercise, seen.case).items():
        values = _of_mistake(seen, wrong, each)
        if values is not None and wrong.explained_by(values):
            found[name] = wrong.telling(values)
    return found


def _of_mistake(seen: Observation, wrong: WrongOutput, mistake: Mistake) -> Tensor | None:
    outputs = wrong_outputs(seen.exercise, seen.case, seen.inputs, mistake)
    # The output of a case without an optional input is not in the place that it has among all of them.
    if seen.exercise.gradients(seen.case) and seen.exercise.gradient is not None:
        place = seen.exercise.gradient.inputs.index(wrong.expected.output.name.removeprefix("d"))
    else:
        place = wrong.number
    return outputs[place] if place < len(outputs) else None


def _larger(seen: Observation, looks: Looks) -> Observation | None:
    """A failure with more elements than this one's."""
    checks = ("aligned", "ragged") if not seen.exercise.upstream(seen.case) else ("gradient",)
    for check in checks:
        for case in listed(seen, check):
            if case.numel > max(seen.case.numel, 30) and case.numel <= 20_000:
                found = looks.at(case)
                if found.verdict.status in (Status.WRONG_VALUES, Status.NOT_FINITE):
                    return found
                break
    return None


def misread(seen: Observation) -> Hint | None:
    """Strides of an input that were ignored or swapped: the output is right for the input read in that way."""
    wrong = seen.wrong_output()
    if wrong is None:
        return None
    for pitfall, what, inputs in _readings(seen):
        if wrong.telling(*_defined(_oracle(seen, inputs, wrong.number))):
            return hint(pitfall, f"The result is right for {what}.")
    return None


def _readings(seen: Observation) -> Iterator[tuple[str, str, list[Tensor]]]:
    specs = seen.case.tensors
    every = list(seen.inputs)
    for index, spec in enumerate(specs):
        if len(spec.shape) < 2:
            continue
        *outer, rows, last = spec.geometry().strides
        if (rows, last) != (_row_major(spec.shape)[-2], 1):
            if last != 1:
                read = _read(seen, index, (*outer, rows, 1))
                yield (
                    "strides_ignored",
                    f"{spec.name} read as if its last stride were 1, not {last}",
                    _with(list(seen.inputs), index, read),
                )
            every = _with(every, index, _read(seen, index, _row_major(spec.shape)))
            what = f"{spec.name} read as if it were row-major: its strides are {spec.geometry().strides}"
            yield "strides_ignored", what, _with(list(seen.inputs), index, every[index])
    yield "strides_ignored", "the inputs read as if they were row-major", every
    for index, spec in enumerate(specs):
        strides = spec.geometry().strides
        if len(strides) >= 2 and strides[-2] != strides[-1]:
            read = _read(seen, index, (*strides[:-2], strides[-1], strides[-2]))
            what = f"{spec.name} read with its last two strides swapped"
            yield "strides_swapped", what, _with(list(seen.inputs), index, read)


def output_layout(seen: Observation) -> Hint | None:
    """A result that was written row-major into memory with the strides of the input, or transposed."""
    wrong = seen.wrong_output()
    if wrong is None or wrong.values.dim() < 2:
        return None
    right = wrong.expected.values
    if right.shape[-1] == right.shape[-2] and wrong.telling(right.mT):
        return hint("transposed", "The result is the transpose of what is asked for.")
    for spec in seen.case.tensors:
        if spec.shape == tuple(right.shape) and spec.layout.startswith("transposed"):
            # Row-major in memory, seen through the strides of a transposed matrix.
            through = right.reshape(*right.shape[:-2], right.shape[-1], right.shape[-2]).mT
            if wrong.telling(through):
                return hint("strides_ignored", f"The result was written row-major into a tensor with the strides of "
                                               f"{spec.name}, which torch.empty_like keeps.")  # fmt: skip
    return None


def transposed_shape(seen: Observation) -> Hint | None:
    """A result whose shape is that of the transposed input's, or the transpose of the right one."""
    wanted, got = seen.facts.get("wanted_shape"), seen.facts.get("seen_shape")
    shapes = seen.exercise.shapes(seen.case)
    if not wanted or not got or wanted == got or seen.exercise.gradients(seen.case):
        return None
    if min(len(got), len(wanted)) >= 2 and got == [*wanted[:-2], wanted[-1], wanted[-2]]:
        return hint("transposed", "The shape is that of the transposed result.")
    if len(shapes) == 1 and len(shapes[0]) == 2 and len(got) == 1:
        swapped = seen.exercise.output_shape([shapes[0][::-1]], **seen.exercise.options_of(seen.case))
        if list(swapped) == got:
            return hint("wrong_axis", "There is one result a column, not one a row.")
    return None


def _oracle(seen: Observation, inputs: Sequence[Tensor], number: int) -> Tensor:
    tolerance = seen.expected[number].tolerance
    return expected_outputs(seen.exercise, seen.case, inputs, tolerance)[number].values.detach()


def _defined(values: Tensor) -> tuple[Tensor, Tensor]:
    """Values, and where they depend on nothing outside the tensors."""
    return values, ~values.isnan()


def _read(seen: Observation, index: int, strides: Strides) -> Tensor:
    """An input as these strides find it in its storage; NaN in gaps and outside."""
    spec = seen.case.tensors[index]
    storage, offset, _ = storage_of(spec, seen.case.dtype, seen.case.seed, index)
    places = torch.full(spec.shape, offset)
    for axis, (size, stride) in enumerate(zip(spec.shape, strides, strict=True)):
        steps = torch.arange(size) * stride
        places = places + steps.view(-1, *[1] * (len(spec.shape) - axis - 1))
    inside = places < len(storage)
    values = storage[places.clamp_max(len(storage) - 1)].to(torch.float64)
    return torch.where(inside, values, torch.nan)


def _with(inputs: Sequence[Tensor], index: int, changed: Tensor) -> list[Tensor]:
    return [*inputs[:index], changed, *inputs[index + 1 :]]


def _row_major(shape: tuple[int, ...]) -> Strides:
    strides = [1]
    for size in shape[:0:-1]:
        strides.insert(0, strides[0] * size)
    return tuple(strides)


def layouts_matter(specs: Sequence[TensorSpec]) -> bool:
    """Whether strides are anything but row-major."""
    return any(spec.layout not in ("contiguous", "offset") for spec in specs)

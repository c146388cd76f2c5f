"""Trusted side: what the outputs of a case must be, in float64, and the errors that they may have. Pure.

For a case with upstream gradients the outputs are the gradients, which autograd derives from the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from reference.exercise import Case, Exercise, Gradients, Mistake, Output, Results

from .compare import Tolerance, allowed_error, for_dtype

Scales = TypeVar("Scales", Results, Gradients)


@dataclass(frozen=True)
class Expected:
    """One output: its name, shape and dtype, the oracle's values, and what their errors are proportional to."""

    output: Output
    values: Tensor
    scale: Tensor
    rms_scale: Tensor | None
    operand_scale: Tensor | None
    tolerance: Tolerance

    @property
    def allowed(self) -> Tensor:
        """The error that each element may have, float64."""
        return self.allowed_around(self.values)

    def allowed_around(self, values: Tensor) -> Tensor:
        """The error that each element may have if `values` were right."""
        return allowed_error(
            values, self.scale.expand(values.shape), self.rms_scale, self.tolerance, operand_scale=self.operand_scale
        )


def expected_outputs(exercise: Exercise, case: Case, tensors: Sequence[Tensor], tolerance: Tolerance) -> list[Expected]:
    """What a call has to give for these inputs (float64, in the case's order, upstream gradients included)."""
    if exercise.upstream(case):
        return _expected_gradients(exercise, case, tensors, tolerance)
    arguments = exercise.bind(case, tensors)
    outputs = exercise.outputs(case)
    scales = [
        _several(scale(*arguments)) if scale else [None] * len(outputs)
        for scale in (exercise.scale, _if(tolerance.rms_atol, exercise.rms_scale),
                      _if(tolerance.operand_rtol, exercise.operand_scale))
    ]  # fmt: skip
    values = _several(exercise.oracle(*arguments))
    return _zipped(outputs, values, scales, case, tolerance)


def wrong_outputs(exercise: Exercise, case: Case, tensors: Sequence[Tensor], mistake: Mistake) -> list[Tensor | None]:
    """What a call that makes the mistake gives."""
    upstream = [tensors[len(tensors) - len(names) :] for names in [exercise.upstream(case)] if names]
    return _several(mistake.oracle(*exercise.bind(case, tensors), *(upstream[0] if upstream else ())))


def mistakes_of(exercise: Exercise, case: Case) -> dict[str, Mistake]:
    """The known mistakes that a call of this case can show."""
    if exercise.gradient and exercise.upstream(case):
        return dict(exercise.gradient.mistakes)
    return dict(exercise.mistakes)


def _expected_gradients(
    exercise: Exercise, case: Case, tensors: Sequence[Tensor], tolerance: Tolerance
) -> list[Expected]:
    assert exercise.gradient is not None
    wanted = exercise.gradient.inputs
    upstream = list(tensors[len(tensors) - len(exercise.upstream(case)) :])
    leaves = [
        tensor.detach().requires_grad_() if spec.name in wanted else tensor
        for spec, tensor in zip(case.tensors, tensors, strict=True)
    ]
    results = exercise.oracle(*exercise.bind(case, leaves))
    values = torch.autograd.grad(results, [leaf for leaf in leaves if leaf.requires_grad], upstream)
    arguments = [*exercise.bind(case, tensors), *upstream]
    outputs = exercise.gradients(case)
    given = {spec.name for spec in case.tensors}
    scales = []
    for scale in (exercise.gradient.scale, _if(tolerance.rms_atol, exercise.gradient.rms_scale),
                  _if(tolerance.operand_rtol, exercise.gradient.operand_scale)):  # fmt: skip
        of_inputs = scale(*arguments) if scale else (None,) * len(wanted)
        scales.append([value for name, value in zip(wanted, of_inputs, strict=True) if name in given])
    return _zipped(outputs, list(values), scales, case, tolerance)


def _zipped(outputs: Sequence[Output], values: Sequence[Tensor | None], scales: Sequence[Sequence[Tensor | None]],
            case: Case, tolerance: Tolerance) -> list[Expected]:  # fmt: skip
    found = []
    for output, value, scale, rms_scale, operand_scale in zip(outputs, values, *scales, strict=True):
        assert value is not None
        assert scale is not None
        own = tolerance if output.dtype == case.dtype else for_dtype(tolerance, output.dtype)
        found.append(Expected(output, value, scale, rms_scale, operand_scale, own))
    return found


def _several(results: Results | Gradients) -> list[Tensor | None]:
    return [results] if isinstance(results, Tensor) else list(results)


def _if(weight: float, scale: Callable[..., Scales] | None) -> Callable[..., Scales] | None:
    return scale if weight else None

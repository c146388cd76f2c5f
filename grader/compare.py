"""Judges an output's values against the float64 oracle. Pure: tensors in, a finding out.

An output y passes where |y − y*| ≤ rtol·|y*| + atol·scale + tiny, element by element. `scale` comes from the exercise:
it is what the rounding errors of a correct kernel are proportional to, so the bound is neither loose for small outputs
nor tight for large ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import torch
from torch import Tensor

from reference.exercise import UNIT_ROUNDOFF

# Relative error of a correct float32 kernel beyond its sums: approximate exponentials and quotients on a GPU have a few
# units in the last place each (CUDA C++ Programming Guide, "Mathematical Functions": 2 for ex2.approx and div.full).
FLOAT32_LIBRARY_ROUNDOFFS = 16
# TF32 keeps 10 bits of each factor. Truncated factors shrink a product by up to 2·2⁻¹⁰ of itself; what is random in
# them adds up as the root of the sum of squares, of which four round-offs are seven standard deviations.
TF32_RTOL = 2.0**-9
TF32_RMS_FACTOR = 4 * 2.0**-11
# One rounding of what becomes an operand of a product moves a sum by one round-off of its scale at most, and in a
# thousand cases by 0.8: half of what is allowed.
OPERAND_ROUNDOFFS = 1.6


@dataclass(frozen=True)
class Tolerance:
    """The allowed error: rtol·|y*| + atol·scale + rms_atol·rms_scale + operand_rtol·operand_scale + tiny.

    `tiny` is in the output's unit, the others are factors.
    """

    rtol: float
    atol: float
    rms_atol: float
    tiny: float
    operand_rtol: float = 0.0


def default_tolerance(dtype: str, reduction_length: int, *, tf32: bool) -> Tolerance:
    """The error that a correct kernel with float32 accumulation may have.

    - rtol: two round-offs of the output's dtype: one for its rounding, one for everything before it. In float32 the
      library functions dominate.
    - atol: float32 accumulation of n terms. Its error grows as √n in the mean over random signs; 8 covers n = 1.
    - tiny: where the output's rounding is absolute: the smallest number of float16, and the smallest normal number of
      the others, whose subnormals GPUs may flush to zero.
    - operand_rtol: one rounding to a 16-bit dtype of what becomes an operand of a product, with a margin. In float32
      such operands are rounded to TF32 or not at all, and `rms_atol` covers them.
    """
    info = torch.finfo(getattr(torch, dtype))
    unit = UNIT_ROUNDOFF[dtype]
    rtol = FLOAT32_LIBRARY_ROUNDOFFS * unit if dtype == "float32" else 2 * unit
    atol = (8 + sqrt(reduction_length)) * UNIT_ROUNDOFF["float32"]
    tiny = info.smallest_normal * (info.eps if dtype == "float16" else 1.0)
    if tf32 and dtype == "float32":
        return Tolerance(max(rtol, TF32_RTOL), atol, TF32_RMS_FACTOR, tiny)
    return Tolerance(rtol, atol, 0.0, tiny, 0.0 if dtype == "float32" else OPERAND_ROUNDOFFS * unit)


def for_dtype(tolerance: Tolerance, dtype: str) -> Tolerance:
    """The tolerance of an output whose dtype is not the inputs': only its own rounding is another."""
    own = default_tolerance(dtype, 1, tf32=False)
    return replace(tolerance, rtol=own.rtol, tiny=own.tiny)


@dataclass(frozen=True)
class Mismatch:
    """The first wrong element in row-major order, and how many are wrong. `finite` is False for NaN or ±inf."""

    index: tuple[int, ...]
    seen: float
    expected: float
    allowed: float
    wrong: int
    total: int
    finite: bool


def compare(output: Tensor, expected: Tensor, allowed: Tensor) -> Mismatch | None:
    """The first wrong element of `output`, or None where all are right.

    `output` has the dtype that is judged; `expected` (float64, same shape) is the exact value; `allowed` (float64) the
    error that each element may have. Rounding may carry an expected value over the edge of the dtype's range: there
    both the largest number and infinity are right. NaN is right exactly where the oracle has NaN.
    """
    wrong = ~is_right(output, expected, allowed)
    count = int(wrong.sum())
    if count == 0:
        return None
    seen = output.to(torch.float64)
    surprising = ~torch.isfinite(seen) & ~_beyond(output, expected, allowed) & torch.isfinite(expected)
    finite = not bool(surprising.any())
    flat = int((surprising if not finite else wrong).flatten().to(torch.uint8).argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), output.shape))
    return Mismatch(index, float(seen[index]), float(expected[index]), float(allowed.expand(output.shape)[index]),
                    count, output.numel(), finite)  # fmt: skip


def is_right(output: Tensor, expected: Tensor, allowed: Tensor) -> Tensor:
    """Which elements of `output` are right; arguments as for `compare`."""
    seen = output.to(torch.float64)
    right = (seen - expected).abs() <= allowed
    limit = torch.finfo(output.dtype).max
    right |= _beyond(output, expected, allowed) & (seen.sign() == expected.sign()) & (seen.abs() >= limit - allowed)
    right |= torch.isnan(expected) & torch.isnan(seen)
    right |= torch.isinf(expected) & (seen == expected)
    return right


def _beyond(output: Tensor, expected: Tensor, allowed: Tensor) -> Tensor:
    """Where rounding may carry the expected value over the edge of the dtype's range."""
    return expected.abs() + allowed >= torch.finfo(output.dtype).max


def allowed_error(expected: Tensor, scale: Tensor, rms_scale: Tensor | None, tolerance: Tolerance, *,
                  operand_scale: Tensor | None = None) -> Tensor:  # fmt: skip
    """The bound for each element, float64, in the output's unit. 0-weight terms never turn it into NaN."""
    bound = tolerance.rtol * expected.abs() + tolerance.atol * scale + tolerance.tiny
    if rms_scale is not None and tolerance.rms_atol:
        bound = bound + tolerance.rms_atol * rms_scale
    if operand_scale is not None and tolerance.operand_rtol:
        bound = bound + tolerance.operand_rtol * operand_scale
    return torch.nan_to_num(bound, nan=0.0, posinf=0.0)

"""Number formats that numpy lacks: bfloat16, TF32 and the 8-bit floats, as float32 values (untrusted worker side).

A block of a narrow format is held as a float32 array whose values the format represents exactly: arithmetic is then
float32 arithmetic followed by one rounding, and bits appear only in memory and in bitcasts.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# name: (exponent bits, mantissa bits, bias, how the top of the code range is used)
_EIGHT_BIT = {
    "fp8e5": (5, 2, 15, "ieee"),  # infinities and NaNs, as float16
    "fp8e4nv": (4, 3, 7, "nan"),  # one NaN, no infinity
    "fp8e4b15": (4, 3, 15, "finite"),
    "fp8e4b8": (4, 3, 8, "unsigned_zero"),  # code 0x80 is NaN
    "fp8e5b16": (5, 2, 16, "unsigned_zero"),
}
NARROW = frozenset({"bf16", *_EIGHT_BIT})


def round_bf16(values: Array) -> Array:
    """Round float32 values to the nearest bfloat16, ties to even; returns float32."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    bits = values.view(np.uint32)
    rounded = bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))
    rounded &= np.uint32(0xFFFF0000)
    result = rounded.view(np.float32)
    unordered = values != values
    if unordered.any():  # the carry of a NaN's payload may have made it an infinity or a zero
        result[unordered] = np.nan
    return result


def truncate_bf16(values: Array) -> Array:
    """Round float32 values toward zero to bfloat16; returns float32."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    result = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    result[np.isnan(values)] = np.nan
    return result


def round_tf32(values: Array) -> Array:
    """Round float32 values to TF32's ten mantissa bits, ties away from zero like `cvt.rna.tf32.f32`."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    bits = values.view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    special = ~np.isfinite(values)
    if special.any():
        rounded[special] = values[special]
    return rounded


def _decode_code(code: int, exponent_bits: int, mantissa_bits: int, bias: int, top: str) -> float:
    sign = -1.0 if code & 0x80 else 1.0
    exponent = (code & 0x7F) >> mantissa_bits
    mantissa = code & ((1 << mantissa_bits) - 1)
    if top == "unsigned_zero" and code == 0x80:
        return float("nan")
    if top == "nan" and code & 0x7F == 0x7F:
        return float("nan")
    if top == "ieee" and exponent == (1 << exponent_bits) - 1:
        return float("nan") if mantissa else sign * float("inf")
    if exponent == 0:
        return float(sign * mantissa * 2.0 ** (1 - bias - mantissa_bits))
    return float(sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias))


@functools.cache
def _table(name: str) -> Array:
    """The 256 values of an 8-bit format, by code."""
    return np.array([_decode_code(code, *_EIGHT_BIT[name]) for code in range(256)], dtype=np.float32)


@functools.cache
def _steps(name: str) -> tuple[Array, Array]:
    """The finite non-negative values of an 8-bit format in order, and the midpoints between neighbours."""
    values = _table(name)[:128].astype(np.float64)
    values = values[np.isfinite(values)]
    return values, (values[1:] + values[:-1]) / 2


def _nearest_index(name: str, values: Array) -> Array:
    """Code (without sign) of the nearest finite value, ties to even, saturating."""
    _, midpoints = _steps(name)
    magnitude = np.abs(values).astype(np.float64)
    index = np.searchsorted(midpoints, magnitude, side="left")
    tie = midpoints[np.minimum(index, midpoints.size - 1)] == magnitude
    result: Array = index + (tie & (index % 2 == 1))
    return result


def round_fp8(name: str, values: Array) -> Array:
    """Round to the nearest value of the 8-bit format, ties to even; overflow and infinity saturate, NaN stays."""
    steps, _ = _steps(name)
    result = np.copysign(steps[_nearest_index(name, values)], values).astype(np.float32)
    if _EIGHT_BIT[name][3] == "unsigned_zero":
        result[result == 0] = 0.0
    result[np.isnan(values)] = np.nan
    return result


def truncate_fp8(name: str, values: Array) -> Array:
    """Round toward zero to the 8-bit format."""
    steps, _ = _steps(name)
    index = np.searchsorted(steps, np.abs(values).astype(np.float64), side="right") - 1
    result = np.copysign(steps[np.clip(index, 0, steps.size - 1)], values).astype(np.float32)
    result[np.isnan(values)] = np.nan
    return result


def round_narrow(name: str, values: Array) -> Array:
    """Round float values to the narrow format `name` (a key of `NARROW`); returns float32."""
    return round_bf16(values) if name == "bf16" else round_fp8(name, values)


def truncate_narrow(name: str, values: Array) -> Array:
    """As `round_narrow`, toward zero."""
    return truncate_bf16(values) if name == "bf16" else truncate_fp8(name, values)


def truncate_fp16(values: Array) -> Array:
    """Round float32 or float64 values toward zero to float16."""
    rounded = values.astype(np.float16)
    outward = np.abs(rounded.astype(values.dtype)) > np.abs(values)
    return np.where(outward & np.isfinite(values), np.nextafter(rounded, np.float16(0)), rounded)


def bits_dtype(name: str) -> np.dtype[Any]:
    """What the narrow format `name` looks like in memory."""
    return np.dtype(np.uint16) if name == "bf16" else np.dtype(np.uint8)


def decode(name: str, bits: Array) -> Array:
    """Memory bits of the narrow format `name` to float32 values."""
    if name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return _table(name)[bits]


def encode(name: str, values: Array) -> Array:
    """Float32 values that the narrow format `name` represents to its memory bits."""
    if name == "bf16":
        return (np.ascontiguousarray(values).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    kind = _EIGHT_BIT[name][3]
    codes = _nearest_index(name, values).astype(np.uint8)
    negative = np.signbit(values)
    if kind == "ieee":
        codes = np.where(np.isinf(values), np.uint8(0x7C), codes)
    if kind == "unsigned_zero":
        negative = negative & (values != 0)
    codes = codes | (negative.astype(np.uint8) << np.uint8(7))
    nan_code = np.uint8(0x80 if kind == "unsigned_zero" else 0x7F)
    return np.where(np.isnan(values), nan_code, codes)


def differ(before: Array, after: Array) -> bool:
    """Whether values as they are in memory differ by more than roundings.

    Tiles that hold the same row at different places, as where rows are wrapped around, sum it in another order.
    """
    if before.dtype == np.uint16:
        before, after = decode("bf16", before), decode("bf16", after)
        eps = 2.0**-7
    elif before.dtype.kind == "f":
        eps = float(np.finfo(before.dtype).eps)
    else:
        return not np.array_equal(before, after)
    both = np.stack([before, after])
    largest = np.abs(both).max(initial=0.0, where=np.isfinite(both))
    with np.errstate(invalid="ignore", over="ignore"):
        return not np.allclose(before, after, rtol=0.0, atol=max(2 * eps, 1e-5) * float(largest), equal_nan=True)

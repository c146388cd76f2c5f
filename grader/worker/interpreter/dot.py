"""`tl.dot` and `tl.dot_scaled` as tensor cores compute them (untrusted worker side).

Products of 16-bit and 8-bit operands are exact in float32. Float32 operands are rounded to TF32 first, unless the
kernel asks for more: that is what decides whether a float32 matmul is off by 1e-3 or 1e-6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter

from . import state
from .formats import decode, round_tf32
from .numerics import rounded

Array = np.ndarray[Any, Any]
Handle = interpreter.TensorHandle


def product(left: Array, right: Array, dtype: Any, input_precision: Any) -> Array:
    """The matrix product of two float blocks of `dtype`, in float32 (float64 for float64)."""
    if dtype.name == "fp32" and input_precision == ir.INPUT_PRECISION.TF32:
        if state.current.session.options.tf32:
            left, right = round_tf32(left), round_tf32(right)
    elif left.dtype == np.float16 or right.dtype == np.float16:
        left, right = left.astype(np.float32), right.astype(np.float32)
    result: Array = np.matmul(left, right)
    return result


def _dot(_builder: Any, a: Any, b: Any, d: Any, input_precision: Any = None, *_: Any) -> Any:
    dtype = d.dtype.scalar
    left, right = a.data, b.data
    if left.dtype.kind in "iu":  # exact in float64, and much faster than numpy's integer product
        sums = np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.int64)
        return Handle((sums + d.data).astype(d.data.dtype), dtype)
    return Handle(rounded(product(left, right, a.dtype.scalar, input_precision) + d.data, dtype), dtype)


def _unpack_e2m1(data: Array, axis: int) -> Array:
    """Two 4-bit floats a byte, low half first, along `axis`."""
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)
    table = np.concatenate([values, -values])
    pairs = np.stack([table[data & 0x0F], table[data >> 4]], axis=axis if axis >= 0 else data.ndim + axis + 1)
    shape = list(data.shape)
    shape[axis] *= 2
    return pairs.reshape(shape)


def _scale_values(handle: Any) -> Array:
    if handle.dtype.scalar.name in ("fp8e4nv", "fp8e5"):
        values: Array = handle.data
        return values
    exponent = handle.data.view(np.uint8).astype(np.int32)
    return np.where(exponent == 255, np.nan, np.ldexp(np.float32(1), exponent - 127)).astype(np.float32)


def _scaled_operand(value: Any, scale: Any, kind: Any, k_packed: bool, is_right: bool) -> Array:
    if kind == ir.ScaleDotElemTypeTY.E2M1:
        along_k = -2 if is_right else -1
        axis = along_k if k_packed else (-1 if is_right else -2)
        data = _unpack_e2m1(value.data, axis)
    elif value.dtype.scalar.name == "uint8":
        data = decode("fp8e5" if kind == ir.ScaleDotElemTypeTY.E5M2 else "fp8e4nv", value.data)
    else:
        data = value.data.astype(np.float32)
    if scale is None:
        return data
    factors = _scale_values(scale)
    length = data.shape[-2 if is_right else -1]
    factors = np.repeat(factors, length // factors.shape[-1], axis=-1)
    result: Array = data * (np.swapaxes(factors, -1, -2) if is_right else factors)
    return result


def _dot_scaled(
    _builder: Any,
    lhs: Any,
    lhs_scale: Any,
    lhs_format: Any,
    rhs: Any,
    rhs_scale: Any,
    rhs_format: Any,
    _fast_math: bool,
    lhs_k_pack: bool,
    rhs_k_pack: bool,
    acc: Any,
) -> Any:
    left = _scaled_operand(lhs, lhs_scale, lhs_format, lhs_k_pack, is_right=False)
    right = _scaled_operand(rhs, rhs_scale, rhs_format, rhs_k_pack, is_right=True)
    return Handle(np.matmul(left, right) + acc.data, tl.float32)


def install() -> None:
    """Replace the builder's matrix products."""
    interpreter.InterpreterBuilder.create_dot = _dot
    interpreter.InterpreterBuilder.create_dot_scaled = _dot_scaled

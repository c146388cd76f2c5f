"""Casts and elementwise arithmetic as a GPU does them, on numpy arrays (untrusted worker side).

`install` replaces the interpreter builder's methods: bfloat16 and 8-bit floats compute in float32 and round once
(see `formats`), float to integer saturates, NaN-ignoring minima ignore NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter

from . import special
from .formats import (
    NARROW,
    bits_dtype,
    decode,
    encode,
    round_narrow,
    truncate_fp16,
    truncate_narrow,
)

Array = np.ndarray[Any, Any]
Handle = interpreter.TensorHandle
Builder = interpreter.InterpreterBuilder

_NUMPY = {
    "int1": np.dtype(bool),
    "fp16": np.dtype(np.float16),
    "fp32": np.dtype(np.float32),
    "fp64": np.dtype(np.float64),
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **dict.fromkeys(NARROW, np.dtype(np.float32)),
}
_POINTER = np.dtype(np.uint64)
_FLOATS = frozenset({"fp16", "fp32", "fp64", *NARROW})
_COMPARISONS = frozenset({np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal})
# A comparison that is "unordered" is true where an operand is NaN; numpy's are the ordered ones (and its != unordered).
_UNORDERED = {"ULT": np.greater_equal, "UGT": np.less_equal, "ULE": np.greater, "UGE": np.less}


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """How a block of `dtype` is held: narrow floats as float32, pointers as uint64."""
    while dtype.is_block():
        dtype = dtype.element_ty
    return _POINTER if dtype.is_ptr() else _NUMPY[dtype.name]


def memory_dtype(dtype: Any) -> np.dtype[Any]:
    """How one element of `dtype` lies in memory."""
    if dtype.is_ptr():
        return _POINTER
    return bits_dtype(dtype.name) if dtype.name in NARROW else _NUMPY[dtype.name]


def from_memory(dtype: Any, bits: Array) -> Array:
    """Elements as they lie in memory to the values that blocks hold."""
    return decode(dtype.name, bits) if dtype.name in NARROW else bits


def to_memory(dtype: Any, values: Array) -> Array:
    """Values of a block to what memory holds."""
    return encode(dtype.name, values) if dtype.name in NARROW else values


def is_float(dtype: Any) -> bool:
    """Whether `dtype` is a floating-point scalar type, narrow ones included."""
    return dtype.name in _FLOATS


@functools.cache
def _integer_bounds(name: str) -> tuple[int, int]:
    info = np.iinfo(_NUMPY[name])
    return int(info.min), int(info.max)


def _to_integer(values: Array, name: str) -> Array:
    """Float to integer toward zero; out of range saturates and NaN is 0, as `cvt.rzi` does."""
    low, high = _integer_bounds(name)
    result = values.astype(_NUMPY[name])
    above, below = values >= float(high) + 1, values < low
    if values.dtype == np.float16:  # float16 has no 2^31: its only values out of an int32 are the infinities
        above = (values >= high) if high < 65504 else np.isposinf(values)
        below = (values < low) if low > -65504 else np.isneginf(values)
    strange = above | below | np.isnan(values)
    if strange.any():
        result = np.where(above, high, np.where(below, low, result)).astype(result.dtype)
        result[np.isnan(values)] = 0
    return result


def convert(values: Array, source: Any, target: Any) -> Array:
    """Cast the values of a block between two scalar types, rounding to nearest even."""
    if target.is_ptr() or source.is_ptr():
        return values.astype(numpy_dtype(target))
    if source.name == target.name:
        return values
    if target.name in NARROW:
        if values.dtype != np.float32:
            values = values.astype(np.float32)
        widens = source.name in NARROW and target.name == "bf16"
        return values if widens else round_narrow(target.name, values)
    if target.name == "int1":
        truth: Array = values != 0
        return truth
    if source.name in _FLOATS and target.name not in _FLOATS:
        return _to_integer(values, target.name)
    return values.astype(_NUMPY[target.name])


def rounded(values: Array, dtype: Any) -> Array:
    """The result of an operation computed wide, as a block of `dtype` holds it."""
    if dtype.name in NARROW:
        return round_narrow(dtype.name, values)
    expected = numpy_dtype(dtype)
    return values if values.dtype == expected else values.astype(expected)


def compute(operation: Callable[..., Array], *operands: Array) -> Array:
    """Apply a numpy function; int1 is a one-bit integer that wraps, not a logical value."""
    if operands[0].dtype == np.bool_ and operation in (np.add, np.subtract, np.multiply):
        return (operation(*(x.astype(np.int8) for x in operands)) & 1).astype(bool)
    return operation(*operands)


def divide_integers(left: Array, right: Array) -> Array:
    """Integer division toward zero, as C does it."""
    if left.dtype.kind == "u":
        return left // right
    result: Array = (left - np.fmod(left, right)) // right
    return result


def bitcast(values: Array, source: Any, target: Any) -> Array:
    """Reinterpret the bits of a block."""
    bits = np.ascontiguousarray(to_memory(source, values)).view(memory_dtype(target))
    return from_memory(target, bits)


# ---------------------------------------------------------------- builder methods


def _binary_op(_builder: Any, lhs: Any, rhs: Any, op: Any) -> Any:
    data = compute(op, lhs.data, rhs.data)
    if op in _COMPARISONS:
        return Handle(data, tl.int1)
    return Handle(rounded(data, lhs.dtype.scalar), lhs.dtype.scalar)


def _ternary_op(_builder: Any, first: Any, second: Any, third: Any, op: Any) -> Any:
    dtype = third.dtype.scalar
    return Handle(rounded(op(first.data, second.data, third.data), dtype), dtype)


def _unary_op(_builder: Any, arg: Any, op: Any) -> Any:
    return Handle(rounded(op(arg.data), arg.dtype.scalar), arg.dtype.scalar)


def _unordered(ordered_opposite: Any) -> Callable[..., Any]:
    def method(_builder: Any, lhs: Any, rhs: Any) -> Any:
        return Handle(~ordered_opposite(lhs.data, rhs.data), tl.int1)

    return method


def _cast(_builder: Any, src: Any, dst_type: Any, *_: Any) -> Any:
    return Handle(convert(src.data, src.dtype.scalar, dst_type.scalar), dst_type.scalar)


def _fp_to_fp(_builder: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
    source, target = src.dtype.scalar, dst_type.scalar
    if rounding_mode == ir.ROUNDING_MODE.RTZ:
        if target.name in NARROW:
            return Handle(truncate_narrow(target.name, src.data.astype(np.float32)), target)
        if target.name == "fp16":
            return Handle(truncate_fp16(src.data), target)
    return Handle(convert(src.data, source, target), target)


def _bitcast(_builder: Any, src: Any, dst_type: Any) -> Any:
    source, target = src.dtype.scalar, dst_type.scalar
    return Handle(bitcast(src.data, source, target), target)


def _int_to_ptr(_builder: Any, src: Any, dst_type: Any) -> Any:
    wide = src.data.astype(np.int64) if src.data.dtype.kind == "i" else src.data
    return Handle(wide.astype(np.uint64), dst_type.scalar)


def _fma(_builder: Any, x: Any, y: Any, z: Any) -> Any:
    # The product of two float32 is exact in float64, so only the sum's double rounding remains.
    dtype = z.dtype.scalar
    wide = np.float64 if z.data.dtype != np.float64 else np.longdouble
    data = x.data.astype(wide) * y.data.astype(wide) + z.data.astype(wide)
    return Handle(rounded(data.astype(numpy_dtype(dtype)), dtype), dtype)


def _clamp(_builder: Any, arg: Any, low: Any, high: Any, propagate_nan: Any) -> Any:
    if propagate_nan == ir.PROPAGATE_NAN.ALL:
        data = np.minimum(np.maximum(arg.data, low.data), high.data)
    else:
        data = np.fmin(np.fmax(arg.data, low.data), high.data)
    return Handle(data, arg.dtype.scalar)


def _idiv(_builder: Any, lhs: Any, rhs: Any) -> Any:
    return Handle(divide_integers(lhs.data, rhs.data), lhs.dtype.scalar)


def _shift_right(signed: bool) -> Callable[..., Any]:
    def method(_builder: Any, lhs: Any, rhs: Any) -> Any:
        kind = "i" if signed else "u"
        view = np.dtype(f"{kind}{lhs.data.dtype.itemsize}")
        amount = rhs.data.astype(view)
        return Handle(np.right_shift(lhs.data.view(view), amount).view(lhs.data.dtype), lhs.dtype.scalar)

    return method


def _umulhi(_builder: Any, lhs: Any, rhs: Any) -> Any:
    width = lhs.data.dtype.itemsize
    unsigned = np.dtype(f"u{width}")
    left, right = lhs.data.view(unsigned), rhs.data.view(unsigned)
    if width < 8:
        wide = left.astype(np.uint64) * right.astype(np.uint64)
        high = (wide >> np.uint64(8 * width)).astype(unsigned)
    else:
        high = _high_half(left, right)
    return Handle(high.view(lhs.data.dtype), lhs.dtype.scalar)


def _high_half(left: Array, right: Array) -> Array:
    """Upper 64 bits of a product of uint64, from the four products of their halves."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a, b, c, d = left >> half, left & low, right >> half, right & low
    middle = a * d + ((b * d) >> half)
    other = b * c + (middle & low)
    result: Array = a * c + (middle >> half) + (other >> half)
    return result


def erf(values: Array) -> Array:
    """Error function in float64, rounded to the dtype of `values`."""
    return special.erf(values.astype(np.float64)).astype(values.dtype)


def _rsqrt(values: Array) -> Array:
    result: Array = 1 / np.sqrt(values)
    return result


def _constant(dtype: Any) -> Callable[..., Any]:
    def method(_builder: Any, value: Any) -> Any:
        return Handle(convert(np.array([value], dtype=np.float32), tl.float32, dtype), dtype)

    return method


def _all_ones(_builder: Any, dtype: Any) -> Any:
    kind = numpy_dtype(dtype)
    if kind.kind not in "iub":
        raise TypeError(f"unsupported type {dtype}")
    data = np.ones(1, dtype=bool) if kind.kind == "b" else np.invert(np.zeros(1, dtype=kind))
    return Handle(data, dtype.scalar)


def _histogram(_builder: Any, data: Any, bins: int, mask: Any) -> Any:
    values = data.data.ravel()
    counted = (values >= 0) & (values < bins)
    if mask is not None:
        counted &= np.broadcast_to(mask.data, data.data.shape).ravel()
    counts = np.bincount(values[counted].astype(np.int64), minlength=bins)
    return Handle(counts.astype(np.int32), tl.int32)


def _splat(_builder: Any, ret_ty: Any, arg: Any) -> Any:
    return Handle(np.broadcast_to(arg.data.reshape((1,) * len(ret_ty.shape)), ret_ty.shape), arg.dtype.scalar)


def install() -> None:
    """Replace the builder's arithmetic."""
    interpreter._get_np_dtype = numpy_dtype
    Builder.binary_op, Builder.ternary_op, Builder.unary_op = _binary_op, _ternary_op, _unary_op
    for name, opposite in _UNORDERED.items():
        setattr(Builder, f"create_fcmp{name}", _unordered(opposite))
    for name in ("si_to_fp", "ui_to_fp", "fp_to_si", "fp_to_ui", "fp_ext", "fp_trunc", "int_cast"):
        setattr(Builder, f"create_{name}", _cast)
    Builder.cast_impl = _cast
    Builder.create_fp_to_fp = _fp_to_fp
    Builder.create_bitcast = Builder.create_ptr_to_int = _bitcast
    Builder.create_int_to_ptr = _int_to_ptr
    Builder.create_fma, Builder.create_clampf = _fma, _clamp
    Builder.create_idiv = Builder.create_sdiv = Builder.create_udiv = _idiv
    Builder.create_ashr, Builder.create_lshr = _shift_right(True), _shift_right(False)
    Builder.create_umulhi = _umulhi
    Builder.get_all_ones_value, Builder.create_histogram, Builder.create_splat = _all_ones, _histogram, _splat
    Builder.create_fneg = lambda self, arg: _unary_op(self, arg, np.negative)
    Builder.create_fabs = lambda self, arg: _unary_op(self, arg, np.abs)
    Builder.create_erf = lambda self, arg: _unary_op(self, arg, erf)
    Builder.create_rsqrt = lambda self, arg: _unary_op(self, arg, _rsqrt)
    Builder.create_minnumf = lambda self, lhs, rhs: _binary_op(self, lhs, rhs, np.fmin)
    Builder.create_maxnumf = lambda self, lhs, rhs: _binary_op(self, lhs, rhs, np.fmax)
    Builder.create_approx_divf = lambda self, lhs, rhs: _binary_op(self, lhs, rhs, np.divide)
    for dtype in (tl.bfloat16, tl.float8e5, tl.float8e4nv, tl.float8e4b15, tl.float8e4b8, tl.float8e5b16):
        setattr(Builder, f"get_{dtype.name}", _constant(dtype))

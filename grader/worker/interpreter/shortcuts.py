"""Short paths for the functions that kernels call most (untrusted worker side).

Each covers the ordinary call and hands every other one, errors included, to Triton's own function, so nothing here
decides what is allowed. Results are the same either way; the tests run both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter

from . import state
from .dot import product
from .loads import constant, given, is_spread, short_load, short_store
from .numerics import convert, is_float
from .programs import aligned
from .reductions import reduce
from .tensors import Operator, Tensor, block_layout, broadcast_dims, builtin, make, number_type, semantic

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

_PRECISIONS = {None: ir.INPUT_PRECISION.TF32, "tf32": ir.INPUT_PRECISION.TF32, "ieee": ir.INPUT_PRECISION.IEEE}
_unwrap = tl.core._unwrap_if_constexpr


_DOT_TYPES = frozenset({"fp16", "bf16", "fp32"})


def _dot(slow: Function) -> Function:
    def dot(
        input: Any,  # noqa: A002 - Triton's name
        other: Any,
        acc: Any = None,
        input_precision: Any = None,
        allow_tf32: Any = None,
        max_num_imprecise_acc: Any = None,
        out_dtype: Any = tl.float32,
        **_: Any,
    ) -> Any:
        precision = _unwrap(input_precision)
        if (
            type(input) is Tensor
            and type(other) is Tensor
            and input.dtype.name == other.dtype.name
            and input.dtype.name in _DOT_TYPES
            and len(input.layout.dims) == len(other.layout.dims) == 2
            and input.layout.dims[1] == other.layout.dims[0]
            and precision in _PRECISIONS
            and allow_tf32 is None
            and max_num_imprecise_acc is None
            and _unwrap(out_dtype) == tl.float32
        ):
            dims = (input.layout.dims[0], other.layout.dims[1])
            layout = block_layout(tl.float32, dims)
            plain = _unwrap(acc) is None
            if plain or (type(acc) is Tensor and acc.layout is layout):
                spread = input.handle.spread or other.handle.spread or is_spread(acc)
                data = product(input.handle.raw, other.handle.raw, input.dtype, _PRECISIONS[precision])
                return make(data if plain else data + acc.handle.raw, layout, spread)
        return slow(
            input,
            other,
            **given(
                acc=(acc, None),
                input_precision=(input_precision, None),
                allow_tf32=(allow_tf32, None),
                max_num_imprecise_acc=(max_num_imprecise_acc, None),
                out_dtype=(out_dtype, tl.float32),
            ),
        )

    return dot


_ranges: dict[tuple[int, int], Tensor] = {}


def _arange(slow: Function) -> Function:
    def arange(start: Any, end: Any, **_: Any) -> Any:
        start, end = _unwrap(start), _unwrap(end)
        if type(start) is not int or type(end) is not int:
            return slow(start, end)
        block = _ranges.get((start, end))
        if block is None:
            block = slow(start, end)
            block.handle.data.flags.writeable = False
            _ranges[start, end] = block
        # A tensor of its own each time: kernels may attach hints to it.
        return make(block.handle.data, block.layout)

    return arange


def _full(slow: Function) -> Function:
    def full(shape: Any, value: Any, dtype: Any, **_: Any) -> Any:
        dtype, value = _unwrap(dtype), _unwrap(value)
        items = [_unwrap(size) for size in shape] if isinstance(shape, (list, tuple, tl.tuple)) else None
        ordinary = items is not None and items and all(type(size) is int for size in items)
        if not ordinary or not isinstance(value, (int, float)) or not isinstance(dtype, tl.dtype) or dtype.is_ptr():
            return slow(shape, value, dtype)
        if not is_float(dtype) and not isinstance(value, int):
            return slow(shape, value, dtype)
        dims = tuple(items or ())
        return make(np.full(dims, constant(value, dtype)), block_layout(dtype, dims))

    return full


def _unary(function: Callable[[Array], Array]) -> Callable[[Function], Function]:
    def shorten(slow: Function) -> Function:
        def call(x: Any, **_: Any) -> Any:
            if type(x) is Tensor and x.dtype.name in ("fp32", "fp64"):
                return make(function(x.handle.raw), x.layout, x.handle.spread)
            return slow(x)

        return call

    return shorten


def _rsqrt(x: Array) -> Array:
    result: Array = 1 / np.sqrt(x)
    return result


def _extremum(operator: Operator) -> Callable[[Function], Function]:
    def shorten(slow: Function) -> Function:
        def call(x: Any, y: Any, propagate_nan: Any = tl.PropagateNan.NONE, **_: Any) -> Any:
            x, y = _unwrap(x), _unwrap(y)
            if _unwrap(propagate_nan) == tl.PropagateNan.NONE:
                if type(x) is Tensor and type(y) is Tensor:
                    return operator.tensors(x, y)
                if type(x) is Tensor and isinstance(y, (int, float)):
                    return operator.number(x, y, False)
                if type(y) is Tensor and isinstance(x, (int, float)):
                    return operator.number(y, x, True)
            return slow(x, y, propagate_nan)

        return call

    return shorten


def _where(slow: Function) -> Function:
    def where(condition: Any, x: Any, y: Any, **_: Any) -> Any:
        x, y = _unwrap(x), _unwrap(y)
        if type(condition) is not Tensor or condition.dtype.name != "int1":
            return slow(condition, x, y)
        tensors = [value for value in (x, y) if type(value) is Tensor]
        numbers = [value for value in (x, y) if isinstance(value, (int, float))]
        if not tensors or len(tensors) + len(numbers) != 2 or any(tensor.dtype.is_ptr() for tensor in tensors):
            return slow(condition, x, y)
        dtype = tensors[0].dtype
        if numbers:
            dtype = semantic.computation_type_impl(dtype, False, number_type(numbers[0]), True, False)
            if not is_float(dtype):
                return slow(condition, x, y)
        elif tensors[1].dtype.name != dtype.name:
            return slow(condition, x, y)
        dims: tuple[int, ...] | None = condition.layout.dims
        for tensor in tensors:
            dims = None if dims is None else broadcast_dims(dims, tensor.layout.dims)
        if dims is None:
            return slow(condition, x, y)
        left, right = (
            convert(aligned(value, len(dims)), value.dtype, dtype) if type(value) is Tensor else constant(value, dtype)
            for value in (x, y)
        )
        spread = any(is_spread(value) for value in (condition, x, y))
        return make(np.where(aligned(condition, len(dims)), left, right), block_layout(dtype, dims), spread)

    return where


def _program_id(slow: Function) -> Function:
    layout = block_layout(tl.int32, ())

    def program_id(axis: Any, **_: Any) -> Any:
        axis = _unwrap(axis)
        if axis not in (0, 1, 2):
            return slow(axis)
        programs = state.current.session.memory.programs
        if programs is not None:
            return make(programs.ids[axis], layout, programs.count > 1)
        return make(np.array([interpreter.interpreter_builder.grid_idx[axis]], dtype=np.int32), layout)

    return program_id


def _sum(slow: Function) -> Function:
    def total(input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None) -> Any:  # noqa: A002
        if type(input) is Tensor and dtype is None and is_float(input.dtype):
            return reduce(input, axis, tl.standard._sum_combine, keep_dims)
        return slow(input, axis, keep_dims) if dtype is None else slow(input, axis, keep_dims, dtype)

    return total


def _extreme(combine: str) -> Callable[[Function], Function]:
    def shorten(slow: Function) -> Function:
        def call(input: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: A002
            keep_dims = kwargs.get("keep_dims", False)
            ordinary = not args and kwargs.keys() <= {"keep_dims"}
            if type(input) is Tensor and ordinary and input.dtype.name == "fp32":
                return reduce(input, axis, getattr(tl.standard, combine), keep_dims)
            return slow(input, axis, *args, **kwargs)

        return call

    return shorten


def _cdiv(slow: Function) -> Function:
    def cdiv(x: Any, div: Any) -> Any:
        x, div = _unwrap(x), _unwrap(div)
        if type(x) is int and type(div) is int:
            return -(-x // div)
        return (x + (div - 1)) // div if type(x) is Tensor or type(div) is Tensor else slow(x, div)

    return cdiv


def _zeros(slow: Function) -> Function:
    full = _full(lambda shape, _value, dtype: slow(shape, dtype))

    def zeros(shape: Any, dtype: Any) -> Any:
        return full(shape, 0, dtype)

    return zeros


_MAXIMUM = Operator("maximum", "arithmetic", np.fmax, builtin(tl.core.maximum))
_MINIMUM = Operator("minimum", "arithmetic", np.fmin, builtin(tl.core.minimum))
_BUILTINS: dict[str, Callable[[Function], Function]] = {
    "load": short_load,
    "store": short_store,
    "dot": _dot,
    "arange": _arange,
    "full": _full,
    "where": _where,
    "program_id": _program_id,
    "maximum": _extremum(_MAXIMUM),
    "minimum": _extremum(_MINIMUM),
}
_MATH: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
}
_STANDARD: dict[str, Callable[[Function], Function]] = {
    "sum": _sum,
    "max": _extreme("_elementwise_max"),
    "min": _extreme("_elementwise_min"),
    "cdiv": _cdiv,
    "zeros": _zeros,
}


def patches() -> list[tuple[Any, str, Any]]:
    """What replaces Triton's functions during a launch."""
    changes: list[tuple[Any, str, Any]] = []
    for name, shorten in _BUILTINS.items():
        short = shorten(builtin(getattr(tl.core, name)))
        changes += [(tl, name, short), (tl.core, name, short)]
    for name, function in _MATH.items():
        short = _unary(function)(builtin(getattr(tl.math, name)))
        changes += [(tl, name, short), (tl.math, name, short)]
    for name, shorten in _STANDARD.items():
        short = shorten(getattr(tl.standard, name))
        changes += [(tl, name, short), (tl.standard, name, short)]
    return changes

"""Reductions and scans over a block's axis (untrusted worker side).

Sums of 16-bit floats are rounded to 16 bits at every step of a tree, as a GPU's threads and warps do it, so that an
overflow shows. Other combine functions run on whole halves of the block rather than element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from . import state
from .numerics import rounded
from .programs import aligned, any_spread
from .tensors import Tensor, block_layout, make

Array = np.ndarray[Any, Any]


def _tree_sum(data: Array, axis: int, dtype: Any) -> Array:
    """Pairwise sum along `axis` (a power of two long), rounded to `dtype` at every step."""
    data = np.moveaxis(data, axis, 0)
    while data.shape[0] > 1:
        half = data.shape[0] // 2
        data = rounded(data[:half] + data[half:], dtype)
    result: Array = data[0]
    return result


def _sum(data: Array, axis: int, dtype: Any) -> Array:
    if dtype.name in ("fp16", "bf16"):
        if state.current.session.options.accumulate_16bit:
            return _tree_sum(data, axis, dtype)
        return rounded(np.asarray(np.sum(data, axis=axis, dtype=np.float32, keepdims=True)), dtype).squeeze(axis)
    result: Array = np.add.reduce(data, axis=axis, dtype=data.dtype)
    return result


def _wrap(data: Array, dtype: Any, spread: bool = False) -> Tensor:
    if spread:
        return make(data, block_layout(dtype, data.shape[1:]), spread=True)
    if data.ndim == 0:
        return make(data.reshape(1), block_layout(dtype, ()))
    return make(data, block_layout(dtype, data.shape))


def _combine(fn: Any, left: list[Array], right: list[Array], dtypes: list[Any], spread: bool) -> list[Array]:
    """Apply a combine function to whole arrays; spread ones have the programs on their second axis."""
    if spread:
        left, right = ([np.moveaxis(data, 1, 0) for data in side] for side in (left, right))
    shape = left[0].shape
    operands = [
        _wrap(np.ascontiguousarray(data), dtype, spread) for data, dtype in zip(left + right, dtypes * 2, strict=True)
    ]
    result = fn(*operands)
    results = result if isinstance(result, (tuple, list, tl.tuple)) else (result,)
    arrays = []
    for item, dtype in zip(results, dtypes, strict=True):
        if not isinstance(item, tl.tensor):
            data = np.array([item])
        else:
            data = aligned(item, len(shape) - 1) if spread else item.handle.data
        array = np.broadcast_to(rounded(data, dtype), shape)
        arrays.append(np.moveaxis(array, 0, 1) if spread else array)
    return arrays


def _tree_reduce(fn: Any, arrays: list[Array], axis: int, dtypes: list[Any], spread: bool) -> list[Array]:
    """Combine neighbours, then neighbours of those: the order of the elements is kept."""
    arrays = [np.moveaxis(data, axis, 0) for data in arrays]
    while arrays[0].shape[0] > 1:
        arrays = _combine(fn, [a[0::2] for a in arrays], [a[1::2] for a in arrays], dtypes, spread)
    return [data[0] for data in arrays]


_ARGUMENTS = frozenset(
    getattr(tl.standard, f"_arg{end}_combine_tie_break_{way}") for end in ("min", "max") for way in ("left", "fast")
)


def _arg_extreme(arrays: list[Array], axis: int, function: Callable[..., Array]) -> list[Array] | None:
    """Extreme value and its leftmost index; None where a NaN makes the combine function's order count."""
    values, indices = arrays
    if values.dtype.kind == "f" and np.isnan(values).any():
        return None
    where = np.expand_dims(function(values, axis=axis), axis)
    return [np.take_along_axis(data, where, axis).squeeze(axis) for data in (values, indices)]


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: bool = False, **_: Any) -> Any:  # noqa: A002
    """`tl.reduce`."""
    inputs = input if isinstance(input, (tuple, tl.tuple)) else (input,)
    for tensor in inputs:
        if not isinstance(tensor, tl.tensor):
            raise ValueError(f"input must be a tensor, got {type(tensor)}")
    dims = inputs[0].layout.dims
    axis = tl.core._unwrap_if_constexpr(axis)
    keep_dims = tl.core._unwrap_if_constexpr(keep_dims)
    dtypes = [tensor.dtype for tensor in inputs]
    spread = any_spread([tensor.handle for tensor in inputs])
    arrays = _arrays(inputs, dims, spread)
    if axis is None or not dims:
        arrays, position = [data.reshape((data.shape[0], -1) if spread else -1) for data in arrays], 0
    else:
        position = axis + len(dims) if axis < 0 else axis
        if not 0 <= position < len(dims):
            raise ValueError(f"axis {axis} out of bounds for shape {dims}")
    results = _reduced(arrays, position + spread, combine_fn, dtypes, spread)
    if keep_dims and dims:
        shape = [1] * len(dims) if axis is None else [1 if i == position else n for i, n in enumerate(dims)]
        results = [data.reshape([data.shape[0], *shape] if spread else shape) for data in results]
    tensors = tuple(_wrap(data, dtype, spread) for data, dtype in zip(results, dtypes, strict=True))
    return tensors if isinstance(input, (tuple, tl.tuple)) else tensors[0]


def _arrays(inputs: Any, dims: tuple[int, ...], spread: bool) -> list[Array]:
    """The operands of a reduction, all spread where one is."""
    if not spread:
        return [np.broadcast_to(tensor.handle.data, dims or (1,)) for tensor in inputs]
    count = next(tensor.handle.raw.shape[0] for tensor in inputs if tensor.handle.spread)
    return [np.broadcast_to(tensor.handle.raw, (count, *dims)) for tensor in inputs]


def _reduced(arrays: list[Array], axis: int, combine_fn: Any, dtypes: list[Any], spread: bool) -> list[Array]:
    standard = tl.standard
    if combine_fn is standard._sum_combine:
        return [_sum(arrays[0], axis, dtypes[0])]
    if combine_fn is standard._elementwise_max:
        return [(np.fmax if arrays[0].dtype.kind == "f" else np.maximum).reduce(arrays[0], axis=axis)]
    if combine_fn is standard._elementwise_min:
        return [(np.fmin if arrays[0].dtype.kind == "f" else np.minimum).reduce(arrays[0], axis=axis)]
    if combine_fn is standard._xor_combine:
        return [np.bitwise_xor.reduce(arrays[0], axis=axis)]
    extreme = None
    if spread and combine_fn in _ARGUMENTS and arrays[0].dtype.kind == "f" and np.isnan(arrays[0]).any():
        # One program's NaN must not decide how the others break ties.
        each = [_reduced([a[i] for a in arrays], axis - 1, combine_fn, dtypes, False) for i in range(len(arrays[0]))]
        return [np.stack(column) for column in zip(*each, strict=True)]
    if combine_fn in (standard._argmax_combine_tie_break_left, standard._argmax_combine_tie_break_fast):
        extreme = _arg_extreme(arrays, axis, np.argmax)
    elif combine_fn in (standard._argmin_combine_tie_break_left, standard._argmin_combine_tie_break_fast):
        extreme = _arg_extreme(arrays, axis, np.argmin)
    return extreme if extreme is not None else _tree_reduce(combine_fn, arrays, axis, dtypes, spread)


def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: bool = False, **_: Any) -> Any:  # noqa: A002
    """`tl.associative_scan`."""
    inputs = input if isinstance(input, (tuple, tl.tuple)) else (input,)
    axis = tl.core._unwrap_if_constexpr(axis)
    dims = inputs[0].layout.dims
    position = axis + len(dims) if axis < 0 else axis
    if not 0 <= position < len(dims):
        raise ValueError(f"axis {axis} out of bounds for shape {dims}")
    dtypes = [tensor.dtype for tensor in inputs]
    spread = any_spread([tensor.handle for tensor in inputs])
    arrays = [np.moveaxis(data, position + spread, 0) for data in _arrays(inputs, dims, spread)]
    if tl.core._unwrap_if_constexpr(reverse):
        arrays = [data[::-1] for data in arrays]
    if combine_fn is tl.standard._sum_combine:
        arrays = [np.add.accumulate(arrays[0], axis=0, dtype=arrays[0].dtype)]
    elif combine_fn is tl.standard._prod_combine:
        arrays = [np.multiply.accumulate(arrays[0], axis=0, dtype=arrays[0].dtype)]
    else:
        arrays = _doubling_scan(combine_fn, arrays, dtypes, spread)
    arrays = [rounded(data, dtype) for data, dtype in zip(arrays, dtypes, strict=True)]
    if tl.core._unwrap_if_constexpr(reverse):
        arrays = [data[::-1] for data in arrays]
    tensors = tuple(
        _wrap(np.ascontiguousarray(np.moveaxis(data, 0, position + spread)), dtype, spread)
        for data, dtype in zip(arrays, dtypes, strict=True)
    )
    return tensors if isinstance(input, (tuple, tl.tuple)) else tensors[0]


def _doubling_scan(fn: Any, arrays: list[Array], dtypes: list[Any], spread: bool) -> list[Array]:
    """Inclusive scan by doubling: after step k each element covers 2ᵏ elements up to itself."""
    length = arrays[0].shape[0]
    step = 1
    while step < length:
        # Whole arrays go in, so that the combine function sees a shape that Triton allows.
        shifted = [np.roll(data, step, axis=0) for data in arrays]
        combined = _combine(fn, shifted, arrays, dtypes, spread)
        arrays = [np.concatenate([old[:step], new[step:]]) for old, new in zip(arrays, combined, strict=True)]
        step *= 2
    return arrays


def map_elementwise(scalar_fn: Any, *args: Any, pack: int = 1, **_: Any) -> Any:
    """`tl.map_elementwise`: a function with control flow, called for each element (or `pack` of them)."""
    pack = tl.core._unwrap_if_constexpr(pack)
    dims = np.broadcast_shapes(*(arg.layout.dims for arg in args))
    columns = [np.broadcast_to(arg.handle.data, dims or (1,)).reshape(-1, pack) for arg in args]
    outputs: list[list[Any]] = []
    for row in range(columns[0].shape[0]):
        scalars = [
            make(column[row, lane : lane + 1], block_layout(arg.dtype, ()))
            for column, arg in zip(columns, args, strict=True)
            for lane in range(pack)
        ]
        result = scalar_fn(*scalars)
        outputs.append(list(result) if isinstance(result, (tuple, tl.tuple)) else [result])
    tensors = []
    for first in range(0, len(outputs[0]), pack):
        dtype = outputs[0][first].dtype
        data = np.concatenate([item.handle.data for row in outputs for item in row[first : first + pack]])
        tensors.append(make(data.reshape(dims or (1,)), block_layout(dtype, dims)))
    return tuple(tensors) if len(tensors) > 1 else tensors[0]


def patches() -> list[tuple[Any, str, Any]]:
    """What replaces Triton's functions during a launch."""
    values: dict[str, Any] = {"reduce": reduce, "associative_scan": associative_scan}
    if hasattr(tl.core, "map_elementwise"):
        values["map_elementwise"] = map_elementwise
    return [(owner, name, value) for owner in (tl, tl.core) for name, value in values.items()]


def install() -> None:
    """Make the methods of blocks use the same functions."""
    Tensor.reduce = reduce
    Tensor.associative_scan = associative_scan
    interpreter.ReduceOps.apply = lambda self, inputs: reduce(inputs, self.axis, self.combine_fn, self.keep_dims)
    interpreter.ScanOps.apply = lambda self, inputs: associative_scan(inputs, self.axis, self.combine_fn, self.reverse)

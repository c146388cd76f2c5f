"""Short paths of `tl.load` and `tl.store`, and what they share with the others (untrusted worker side).

As in `shortcuts`: the ordinary call is covered here, every other one goes to Triton's own function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from . import state
from .numerics import convert, is_float, numpy_dtype, rounded
from .programs import aligned
from .tensors import Tensor, block_layout, broadcast_dims, make

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

_CACHE_MODIFIERS = frozenset({"", ".ca", ".cg", ".cv", ".wb", ".cs", ".wt", None})
_EVICTIONS = frozenset({"", "evict_first", "evict_last", None})
_unwrap = tl.core._unwrap_if_constexpr


def constant(value: Any, dtype: Any) -> Array:
    """A number as a block of one element."""
    return rounded(np.array([value], dtype=numpy_dtype(dtype)), dtype)


def _plain_pointer(pointer: Any) -> bool:
    """Whether `pointer` is a block of element pointers, and not a pointer to a block or to booleans."""
    if type(pointer) is not Tensor or not pointer.dtype.is_ptr():
        return False
    element = pointer.dtype.element_ty
    return not element.is_block() and element.name != "int1"


def _aligned(value: Any, dims: tuple[int, ...], dtype: Any) -> Array | None:
    """A mask or value as an array that broadcasts to `dims`; None where Triton must decide."""
    if type(value) is Tensor:
        if broadcast_dims(value.layout.dims, dims) != dims or value.dtype.is_ptr():
            return None
        return convert(aligned(value, len(dims)), value.dtype, dtype)
    if isinstance(value, (int, float)) and (is_float(dtype) or isinstance(value, int)):
        return constant(value, dtype)
    return None


def _mask(mask: Any, dims: tuple[int, ...]) -> Array | None:
    if type(mask) is not Tensor or mask.dtype.name != "int1" or broadcast_dims(mask.layout.dims, dims) != dims:
        return None
    if mask.handle.spread:
        return aligned(mask, len(dims))
    data: Array = mask.handle.data
    shape = dims or (1,)
    return data if data.shape == shape else np.broadcast_to(data, shape)


def is_spread(value: Any) -> bool:
    """Whether `value` is a tensor that differs between programs."""
    return type(value) is Tensor and bool(value.handle.spread)


def given(**options: tuple[Any, Any]) -> dict[str, Any]:
    """The options that differ from their default; versions differ in which they have, and in which go by position."""
    return {
        name: value
        for name, (value, default) in options.items()
        if not (value is default or (type(value) is type(default) and value == default))
    }


def short_load(slow: Function) -> Function:
    """`tl.load`."""

    def load(
        pointer: Any,
        mask: Any = None,
        other: Any = None,
        boundary_check: Any = (),
        padding_option: Any = "",
        cache_modifier: Any = "",
        eviction_policy: Any = "",
        volatile: Any = False,
        **_: Any,
    ) -> Any:
        mask, other = _unwrap(mask), _unwrap(other)
        ordinary = _plain_pointer(pointer) and not boundary_check and not padding_option
        if ordinary and cache_modifier in _CACHE_MODIFIERS and eviction_policy in _EVICTIONS:
            dims, element = pointer.layout.dims, pointer.dtype.element_ty
            active = None if mask is None else _mask(mask, dims)
            filler = None if other is None else _aligned(other, dims, element)
            if (mask is None and other is None) or (active is not None and (other is None or filler is not None)):
                spread = pointer.handle.spread or is_spread(mask) or is_spread(other)
                data = state.current.session.memory.load(pointer.handle.raw, active, filler, element, spread)
                return make(data, block_layout(element, dims), spread)
        return slow(
            pointer,
            **given(
                mask=(mask, None),
                other=(other, None),
                boundary_check=(boundary_check, ()),
                padding_option=(padding_option, ""),
                cache_modifier=(cache_modifier, ""),
                eviction_policy=(eviction_policy, ""),
                volatile=(volatile, False),
            ),
        )

    return load


def short_store(slow: Function) -> Function:
    """`tl.store`."""

    def store(
        pointer: Any,
        value: Any,
        mask: Any = None,
        boundary_check: Any = (),
        cache_modifier: Any = "",
        eviction_policy: Any = "",
        **_: Any,
    ) -> Any:
        mask, value = _unwrap(mask), _unwrap(value)
        ordinary = _plain_pointer(pointer) and not boundary_check and not pointer.dtype.is_const()
        if ordinary and cache_modifier in _CACHE_MODIFIERS and eviction_policy in _EVICTIONS:
            dims, element = pointer.layout.dims, pointer.dtype.element_ty
            active = None if mask is None else _mask(mask, dims)
            data = _aligned(value, dims, element)
            if data is not None and (mask is None or active is not None):
                spread = pointer.handle.spread or is_spread(mask) or is_spread(value)
                state.current.session.memory.store(pointer.handle.raw, data, active, element, spread)
                return None
        return slow(
            pointer,
            value,
            **given(
                mask=(mask, None),
                boundary_check=(boundary_check, ()),
                cache_modifier=(cache_modifier, ""),
                eviction_policy=(eviction_policy, ""),
            ),
        )

    return store

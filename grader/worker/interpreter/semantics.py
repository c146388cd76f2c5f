"""Installs `Tensor` into Triton's interpreter, and shortens what Triton's semantic does for it (untrusted worker side).

The semantic's methods are replaced on the interpreter's own instance: the compiler's instances never see them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from .numerics import convert
from .programs import aligned
from .tensors import (
    OPERATORS,
    Handle,
    Tensor,
    block_layout,
    broadcast_dims,
    builtin,
    getitem,
    make,
    method,
    negate,
    semantic,
)


def install() -> None:
    """Give `Tensor` its operators, and make the interpreter produce nothing else."""
    for name, member in vars(tl.tensor).items():
        if tl.core.is_builtin(member):
            setattr(Tensor, name, builtin(member))
    for name, member in inspect.getmembers(tl.math, tl.core.is_builtin):
        # x.exp() and friends: registered on the class before they became builtins, so they miss the semantic.
        if name in vars(tl.tensor):
            setattr(Tensor, name, builtin(member))
    for name, operator in OPERATORS.items():
        setattr(Tensor, f"__{name}__", method(operator, reverse=False))
        setattr(Tensor, f"__r{name}__", method(operator, reverse=True))
    Tensor.__neg__ = negate
    Tensor.__getitem__ = getitem
    Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]
    semantic.tensor = Tensor
    semantic.cast = _cast
    semantic.broadcast_impl_value = _broadcast_values
    semantic.binary_op_type_checking_impl = _check_operands
    semantic.splat = _splat
    semantic.expand_dims = _expand_dims
    semantic.permute = _permute
    _install_handle()
    _install_constexpr()


def _install_handle() -> None:
    """A handle without the dataclass's bookkeeping."""

    def init(self: Any, data: Any, dtype: Any, attr: Any = None) -> None:
        self.data = data
        self.dtype = dtype
        if attr is not None:
            self.attr = attr

    def set_attr(self: Any, key: str, value: Any) -> None:
        self.__dict__.setdefault("attr", {})[key] = value

    Handle.__init__ = init
    Handle.set_attr = set_attr


def _install_constexpr() -> None:
    """A module-level constexpr beside a block is the block's business, not a constexpr of a block."""
    names = ["add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"]
    for name in [*(f"__{n}__" for n in names), "__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"]:
        original = vars(tl.constexpr).get(name)
        if original is not None:
            setattr(tl.constexpr, name, _deferring(original))


def _deferring(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(original)
    def method(self: Any, other: Any) -> Any:
        return NotImplemented if type(other) is Tensor else original(self, other)

    return method


# ---------------------------------------------------------------- shortened parts of the semantic


def _cast(input: Any, dst_ty: Any, fp_downcast_rounding: Any = None) -> Any:  # noqa: A002 - Triton's name
    source, target = input.type.scalar, dst_ty.scalar
    if source.name == target.name:
        return input
    if fp_downcast_rounding is not None or source.is_ptr() or target.is_ptr() or target.name == "void":
        return type(semantic).cast(semantic, input, dst_ty, fp_downcast_rounding)
    handle = input.handle
    return make(convert(handle.raw, source, target), block_layout(target, input.layout.dims), handle.spread)


def _broadcast_values(lhs: Any, rhs: Any) -> tuple[Any, Any]:
    left, right = lhs.layout.dims, rhs.layout.dims
    if left == right:
        return lhs, rhs
    dims = broadcast_dims(left, right)
    if dims is None:
        result: tuple[Any, Any] = type(semantic).broadcast_impl_value(semantic, lhs, rhs)
        return result
    return lhs if left == dims else _broadcast(lhs, dims), rhs if right == dims else _broadcast(rhs, dims)


def _broadcast(block: Any, dims: tuple[int, ...]) -> Any:
    raw, spread = aligned(block, len(dims)), block.handle.spread
    shape = (raw.shape[0], *dims) if spread else dims
    return make(np.broadcast_to(raw, shape), block_layout(block.dtype, dims), spread)


def _check_operands(lhs: Any, rhs: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    if (
        not args
        and not kwargs
        and type(lhs) is Tensor
        and type(rhs) is Tensor
        and lhs.type.name == rhs.type.name
        and not lhs.dtype.is_ptr()
    ):
        return lhs, rhs
    result: tuple[Any, Any] = type(semantic).binary_op_type_checking_impl(semantic, lhs, rhs, *args, **kwargs)
    return result


def _splat(value: Any, shape: Any) -> Any:
    dims = tuple(tl.core._unwrap_if_constexpr(size) for size in shape)
    if value.layout.dims or not dims:
        return type(semantic).splat(semantic, value, shape)
    return _broadcast(value, dims)


def _expand_dims(input: Any, axis: int) -> Any:  # noqa: A002 - Triton's name
    dims = input.layout.dims
    if not dims or not 0 <= axis <= len(dims):
        return type(semantic).expand_dims(semantic, input, axis)
    handle = input.handle
    data = np.expand_dims(handle.raw, axis + handle.spread)
    return make(data, block_layout(input.dtype, (*dims[:axis], 1, *dims[axis:])), handle.spread)


def _permute(input: Any, dims: Any) -> Any:  # noqa: A002 - Triton's name
    order = tuple(tl.core._unwrap_if_constexpr(dim) for dim in dims)
    if sorted(order) != list(range(len(input.layout.dims))):
        return type(semantic).permute(semantic, input, dims)
    sizes = tuple(input.layout.dims[dim] for dim in order)
    handle = input.handle
    axes = (0, *(axis + 1 for axis in order)) if handle.spread else order
    return make(np.transpose(handle.raw, axes), block_layout(input.dtype, sizes), handle.spread)

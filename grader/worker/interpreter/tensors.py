"""The block that interpreted kernels compute with: Triton's `tensor` with short paths (untrusted worker side).

Triton's own class works out types, shapes and broadcasts anew for every operation. Here each operator keeps a plan per
pair of operand types; whatever a plan doesn't cover takes Triton's path, which also words the errors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from .numerics import compute, convert, divide_integers, is_float, numpy_dtype, rounded
from .programs import Spread, aligned, same_for_all, settled

Array = np.ndarray[Any, Any]
Handle = interpreter.TensorHandle
semantic = interpreter.interpreter_semantic


class Layout:
    """A type with what every tensor of it needs ready-made."""

    __slots__ = ("dims", "dtype", "numel", "shape", "type")

    def __init__(self, type_: Any) -> None:
        self.type = type_
        self.dtype = type_.scalar
        self.dims: tuple[int, ...] = tuple(type_.shape) if type_.is_block() else ()
        self.shape = tl.core.tuple([tl.constexpr(size) for size in self.dims])
        self.numel = tl.constexpr(int(np.prod(self.dims, dtype=np.int64)))


_layouts: dict[str, Layout] = {}
_blocks: dict[tuple[str, tuple[int, ...]], Layout] = {}


def layout_of(type_: Any) -> Layout:
    """The layout of a Triton type."""
    layout = _layouts.get(type_.name)
    if layout is None:
        layout = _layouts[type_.name] = Layout(type_)
    return layout


def block_layout(dtype: Any, dims: tuple[int, ...]) -> Layout:
    """The layout of a block of `dtype`, or of the scalar where there are no dimensions."""
    key = (dtype.name, dims)
    layout = _blocks.get(key)
    if layout is None:
        layout = _blocks[key] = layout_of(tl.block_type(dtype, list(dims)) if dims else dtype)
    return layout


class Tensor(tl.tensor):  # type: ignore[misc]
    """A block or scalar; `handle.data` is a numpy array of the block's shape, or of shape (1,) for a scalar.

    Where it differs between programs that run together, the handle is a `Spread` instead, see `programs`.
    """

    def __init__(self, handle: Any, type: Any) -> None:  # noqa: A002 - Triton's name
        layout = layout_of(type)
        self.handle = settled(handle, layout.dims) if handle.__class__ is Spread else handle
        self.layout = layout
        self.type, self.dtype, self.shape, self.numel = layout.type, layout.dtype, layout.shape, layout.numel

    def __index__(self) -> int:
        handle = self.handle
        if handle.spread:
            return int(same_for_all(handle.raw.reshape(handle.raw.shape[0], -1)[:, 0]))
        return int(handle.data.reshape(-1)[0])

    def __bool__(self) -> bool:
        # Only scalars have a truth value in Triton; Triton's own code asks it of blocks, meaning "is there one".
        handle = self.handle
        if handle.spread:
            return bool(same_for_all(handle.raw.reshape(-1).astype(bool))) if self.numel.value == 1 else True
        data = handle.data
        return bool(data.reshape(-1)[0]) if data.size == 1 else True

    def __repr__(self) -> str:
        return repr(self.handle.data)

    __str__ = __repr__

    @property
    def T(self) -> Any:  # noqa: N802 - Triton's name
        """The transpose of a two-dimensional block."""
        return semantic.permute(self, (1, 0))


def make(data: Array, layout: Layout, spread: bool = False) -> Tensor:
    """A tensor around `data`, without any check; with an axis of programs in front where it is `spread`."""
    tensor = Tensor.__new__(Tensor)
    tensor.handle = Spread(data, layout.dtype) if spread else Handle(data, layout.dtype)
    tensor.layout = layout
    tensor.type, tensor.dtype, tensor.shape, tensor.numel = layout.type, layout.dtype, layout.shape, layout.numel
    return tensor


@functools.cache
def broadcast_dims(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...] | None:
    """The common shape, or None."""
    try:
        return np.broadcast_shapes(left, right)
    except ValueError:
        return None


def number_type(value: Any) -> Any:
    """The Triton type of a Python number."""
    if isinstance(value, bool):
        return tl.int1
    if isinstance(value, int):
        for dtype in (tl.int32, tl.uint32, tl.int64, tl.uint64):
            if dtype.get_int_min_value() <= value <= dtype.get_int_max_value():
                return dtype
        raise ValueError(f"Nonrepresentable integer {value}.")
    magnitude = abs(value)
    # A float32 unless it would overflow, or lose bits as a subnormal.
    fits = magnitude in (0.0, float("inf")) or value != value or 2.0**-126 <= magnitude <= (2 - 2**-23) * 2.0**127
    return tl.float32 if fits else tl.float64


# ---------------------------------------------------------------- operators


class _Plan:
    """How one operator treats one pair of operand types."""

    __slots__ = ("compute_dtype", "layout", "left", "right")

    def __init__(self, left: Any, right: Any, compute_dtype: Any, layout: Layout) -> None:
        # The operand's type where it must be cast first, else None.
        self.left = None if left.name == compute_dtype.name else left
        self.right = None if right.name == compute_dtype.name else right
        self.compute_dtype = compute_dtype
        self.layout = layout


def _result_types(kind: str, left: Any, left_scalar: bool, right: Any, right_scalar: bool) -> Any:
    """The type an operator computes in, by Triton's rules; None where Triton's own path must decide."""
    divides = kind in ("truediv", "integer")
    dtype = semantic.computation_type_impl(left, left_scalar, right, right_scalar, divides)
    if kind == "truediv" and not is_float(dtype):
        return tl.float32
    if kind == "integer" and is_float(dtype):
        return None
    return dtype


class Operator:
    """A binary operator of `Tensor`, with its plans."""

    def __init__(self, name: str, kind: str, function: Callable[..., Array], slow: Callable[[Any, Any], Any]) -> None:
        self.name, self.kind, self.function, self.slow = name, kind, function, slow
        self.plans: dict[tuple[str, str], _Plan | None] = {}

    def tensors(self, left: Any, right: Any) -> Any:
        """The operator on two tensors."""
        key = (left.type.name, right.type.name)
        try:
            plan = self.plans[key]
        except KeyError:
            plan = self.plans[key] = self._plan(left, right)
        if plan is None:
            return self.slow(left, right)
        first_handle, second_handle = left.handle, right.handle
        spread = first_handle.spread or second_handle.spread
        if spread:
            rank = len(plan.layout.dims)
            first, second = aligned(left, rank), aligned(right, rank)
        else:
            first, second = first_handle.data, second_handle.data
        if plan.left is not None:
            first = convert(first, plan.left, plan.compute_dtype)
        if plan.right is not None:
            second = convert(second, plan.right, plan.compute_dtype)
        data = compute(self.function, first, second)
        return make(data if self.kind == "compare" else rounded(data, plan.compute_dtype), plan.layout, spread)

    def _plan(self, left: Any, right: Any) -> _Plan | None:
        if left.dtype.is_ptr() or right.dtype.is_ptr():
            return None
        dims = broadcast_dims(left.layout.dims, right.layout.dims)
        if dims is None:
            return None
        dtype = _result_types(self.kind, left.dtype, False, right.dtype, False)
        if dtype is None:
            return None
        return _Plan(left.dtype, right.dtype, dtype, block_layout(tl.int1 if self.kind == "compare" else dtype, dims))

    def number(self, tensor: Any, value: Any, reverse: bool) -> Any:
        """The operator on a tensor and a Python number; `reverse` where the number comes first."""
        value_dtype = number_type(value)
        key = (tensor.type.name, f"r {value_dtype.name}" if reverse else value_dtype.name)
        try:
            plan = self.plans[key]
        except KeyError:
            plan = self.plans[key] = self._number_plan(tensor, value_dtype)
        if plan is None or not _fits(value, plan.compute_dtype):
            return self.slow(value, tensor) if reverse else self.slow(tensor, value)
        data = tensor.handle.raw
        if plan.left is not None:
            data = convert(data, plan.left, plan.compute_dtype)
        constant = rounded(np.array([value], dtype=numpy_dtype(plan.compute_dtype)), plan.compute_dtype)
        data = compute(self.function, constant, data) if reverse else compute(self.function, data, constant)
        data = data if self.kind == "compare" else rounded(data, plan.compute_dtype)
        return make(data, plan.layout, tensor.handle.spread)

    def _number_plan(self, tensor: Any, value_dtype: Any) -> _Plan | None:
        if tensor.dtype.is_ptr():
            return None
        dtype = _result_types(self.kind, tensor.dtype, False, value_dtype, True)
        if dtype is None:
            return None
        result = tl.int1 if self.kind == "compare" else dtype
        return _Plan(tensor.dtype, value_dtype, dtype, block_layout(result, tensor.layout.dims))


def _fits(value: Any, dtype: Any) -> bool:
    if is_float(dtype):
        return True
    if dtype.name == "int1":
        return bool(0 <= value <= 1)
    return bool(dtype.get_int_min_value() <= value <= dtype.get_int_max_value())


def _remainder(left: Array, right: Array) -> Array:
    result: Array = np.fmod(left, right)
    return result


def _slow(method: str, *extra: Any) -> Callable[[Any, Any], Any]:
    def call(left: Any, right: Any) -> Any:
        # Attribute access at call time: Triton's own methods are what is wanted, of whatever version.
        return getattr(type(semantic), method)(semantic, left, right, *extra)

    return call


OPERATORS = {
    operator.name: operator
    for operator in (
        Operator("add", "arithmetic", np.add, _slow("add", False)),
        Operator("sub", "arithmetic", np.subtract, _slow("sub", False)),
        Operator("mul", "arithmetic", np.multiply, _slow("mul", False)),
        Operator("truediv", "truediv", np.divide, _slow("truediv")),
        Operator("floordiv", "integer", divide_integers, _slow("floordiv")),
        Operator("mod", "integer", _remainder, _slow("mod")),
        Operator("lt", "compare", np.less, _slow("less_than")),
        Operator("le", "compare", np.less_equal, _slow("less_equal")),
        Operator("gt", "compare", np.greater, _slow("greater_than")),
        Operator("ge", "compare", np.greater_equal, _slow("greater_equal")),
        Operator("eq", "compare", np.equal, _slow("equal")),
        Operator("ne", "compare", np.not_equal, _slow("not_equal")),
    )
}


def method(operator: Operator, reverse: bool) -> Callable[[Any, Any], Any]:
    """A method of `Tensor`; `reverse` for the one Python calls on the right operand."""
    pointers = operator.name in ("add", "sub")

    def apply(self: Any, other: Any) -> Any:
        if type(other) is Tensor:
            if pointers and self.dtype.is_ptr() and not reverse:
                return add_to_pointer(self, other, operator)
            return operator.tensors(other, self) if reverse else operator.tensors(self, other)
        if isinstance(other, tl.constexpr):
            other = other.value
        if isinstance(other, (int, float)):
            return operator.number(self, other, reverse)
        return operator.slow(other, self) if reverse else operator.slow(self, other)

    return apply


@functools.cache
def _element_bytes(bits: int) -> np.int64:
    return np.int64(max(1, bits // 8))


def add_to_pointer(pointer: Any, offset: Any, operator: Operator) -> Any:
    """Pointer plus or minus an integer block."""
    element = pointer.dtype.element_ty
    dims = broadcast_dims(pointer.layout.dims, offset.layout.dims)
    if dims is None or element.is_block() or not offset.dtype.is_int() or offset.dtype.name == "int1":
        return operator.slow(pointer, offset)
    spread = pointer.handle.spread or offset.handle.spread
    rank = len(dims)
    steps = (aligned(offset, rank).astype(np.int64) * _element_bytes(element.primitive_bitwidth)).view(np.uint64)
    return make(operator.function(aligned(pointer, rank), steps), block_layout(pointer.dtype, dims), spread)


def negate(self: Any) -> Any:
    """Unary minus."""
    if self.dtype.is_ptr() or self.dtype.name == "int1":
        return semantic.minus(self)
    return make(np.negative(self.handle.raw), self.layout, self.handle.spread)


def _only_axes(parts: tuple[Any, ...]) -> bool:
    return all(part is None or (isinstance(part, slice) and part == slice(None)) for part in parts)


def getitem(self: Any, slices: Any) -> Any:
    """Indexing by `:` and `None` only, as Triton allows; anything else goes to Triton for its error."""
    parts = slices if isinstance(slices, tuple) else (slices,)
    parts = tuple(part.value if isinstance(part, tl.constexpr) else part for part in parts)
    kept = sum(1 for part in parts if part is not None)
    if self.layout.dims and kept <= len(self.layout.dims) and _only_axes(parts):
        remaining = list(self.layout.dims)
        dims = [1 if part is None else remaining.pop(0) for part in parts]
        layout = block_layout(self.dtype, (*dims, *remaining))
        if self.handle.spread:
            return make(self.handle.raw[(slice(None), *parts)], layout, spread=True)
        return make(self.handle.data[parts], layout)
    return builtin(tl.tensor.__dict__["__getitem__"])(self, parts)


def builtin(member: Callable[..., Any]) -> Callable[..., Any]:
    """A Triton builtin, called with the interpreter's semantic."""

    @functools.wraps(member)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = semantic
        return member(*args, **kwargs)

    return call

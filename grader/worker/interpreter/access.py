"""The builder's loads and stores, block pointers and descriptors on checked memory (untrusted worker side).

The builder's signatures differ between Triton versions in their cache arguments, which mean nothing here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter

from . import state
from .formats import round_tf32
from .numerics import numpy_dtype
from .programs import Spread, any_spread, lifted, refuse

Array = np.ndarray[Any, Any]
Handle = interpreter.TensorHandle


def _data(value: Any) -> Any:
    return value.raw if isinstance(value, Handle) else value


def _read(ptrs: Any, mask: Any, other: Any) -> Any:
    """Load through checked memory: pointers, mask and `other` of one shape, any of them differing between programs."""
    dtype = ptrs.get_element_ty()
    spread = any_spread((ptrs, mask, other))
    data = state.current.session.memory.load(ptrs.raw, _data(mask), _data(other), dtype, spread)
    return (Spread if spread else Handle)(data, dtype)


def _write(ptrs: Any, value: Any, mask: Any) -> None:
    spread = any_spread((ptrs, value, mask))
    state.current.session.memory.store(ptrs.raw, value.raw, _data(mask), ptrs.get_element_ty(), spread)


def _load(_builder: Any, ptr: Any, *_: Any, **__: Any) -> Any:
    return _read(ptr, None, None)


def _masked_load(_builder: Any, ptrs: Any, mask: Any, other: Any, *_: Any, **__: Any) -> Any:
    return _read(ptrs, mask, other)


def _store(_builder: Any, ptr: Any, val: Any, *_: Any, **__: Any) -> None:
    _write(ptr, val, None)


def _masked_store(_builder: Any, ptrs: Any, value: Any, mask: Any, *_: Any, **__: Any) -> None:
    _write(ptrs, value, mask)


def _padding(option: Any, dtype: Any) -> Array | None:
    if option == ir.PADDING_OPTION.PAD_NAN:
        return np.full(1, np.nan, dtype=numpy_dtype(dtype))
    return None  # zero


def _block_pointer_load(_builder: Any, ptr: Any, boundary_check: Any, padding_option: Any, *_: Any, **__: Any) -> Any:
    ptrs, mask = ptr.materialize_pointers(boundary_check)
    return _read(ptrs, mask, _padding(padding_option, ptrs.get_element_ty()))


def _block_pointer_store(_builder: Any, ptr: Any, value: Any, boundary_check: Any, *_: Any, **__: Any) -> None:
    ptrs, mask = ptr.materialize_pointers(boundary_check)
    _write(ptrs, value, mask)


def _column(scalar: Any, rank: int) -> Array:
    """A scalar of a descriptor or block pointer, such that it broadcasts against blocks."""
    raw: Array = scalar.raw
    return lifted(raw.reshape(-1), rank) if scalar.spread else raw.reshape(-1)[:1]


def _block_pointers(original: Any) -> Any:
    """Addresses and mask of a block pointer, also where its parts differ between programs."""

    def materialize(pointer: Any, boundary_check: Any) -> tuple[Any, Any]:
        if not any_spread([pointer.base, *pointer.shape, *pointer.strides, *pointer.offsets]):
            result: tuple[Any, Any] = original(pointer, boundary_check)
            return result
        rank = len(pointer.block_shape)
        itemsize = pointer.base.get_element_ty().primitive_bitwidth // 8
        addresses, mask = _column(pointer.base, rank), np.ones((1,) * rank, dtype=bool)
        for dim, length in enumerate(pointer.block_shape):
            shape = [1] * rank
            shape[dim] = length
            index = _column(pointer.offsets[dim], rank) + np.arange(length).reshape(shape)
            addresses = addresses + (itemsize * index * _column(pointer.strides[dim], rank)).astype(np.uint64)
            if dim in boundary_check:
                mask = mask & (index < _column(pointer.shape[dim], rank)) & (index >= 0)
        checked = [dim for dim in range(rank) if dim in boundary_check]
        if not any_spread([part[dim] for part in (pointer.offsets, pointer.shape) for dim in checked]):
            mask = np.broadcast_to(mask, pointer.block_shape)
            return Spread(addresses, pointer.base.dtype.scalar), Handle(mask, tl.int1)
        return Spread(addresses, pointer.base.dtype.scalar), Spread(mask, tl.int1)

    return materialize


def _advance(original: Any) -> Any:
    def advance(builder: Any, pointer: Any, offsets: Any) -> Any:
        if not any_spread([*pointer.offsets, *offsets]):
            return original(builder, pointer, offsets)
        moved = []
        for offset, step in zip(pointer.offsets, offsets, strict=True):
            raw = (offset.raw + step.raw).astype(offset.raw.dtype)
            moved.append((Spread if offset.spread or step.spread else Handle)(raw, offset.dtype))
        return type(pointer)(
            pointer.base, pointer.shape, pointer.strides, moved, pointer.block_shape, pointer.order
        )  # fmt: skip

    return advance


def _descriptor_pointers(desc: Any, offsets: Any) -> tuple[Any, Any]:
    """Addresses and mask of a descriptor's block; a block may start at any offset, also before the tensor."""
    element = desc.base.dtype.element_ty
    itemsize = max(1, element.primitive_bitwidth // 8)
    rank = len(desc.block_shape)
    addresses, mask = _column(desc.base, rank), np.ones(desc.block_shape, dtype=bool)
    for dim, length in enumerate(desc.block_shape):
        shape = [1] * rank
        shape[dim] = length
        index = _column(offsets[dim], rank).astype(np.int64) + np.arange(length).reshape(shape)
        stride = _column(desc.strides[dim], rank).astype(np.int64)
        addresses = addresses + (index * np.int64(itemsize) * stride).astype(np.uint64)
        mask = mask & (index >= 0) & (index < _column(desc.shape[dim], rank))
    masks = any_spread([*offsets, *desc.shape])
    places = masks or any_spread([desc.base, *desc.strides])
    return (
        (Spread if places else Handle)(addresses, desc.base.dtype.scalar),
        (Spread if masks else Handle)(mask, tl.int1),
    )


def _validate(original: Any) -> Any:
    def validate(desc: Any) -> None:
        if any_spread([desc.base, *desc.strides]):
            itemsize = desc.base.dtype.element_ty.primitive_bitwidth // 8
            if (desc.base.raw % 16).any() or any((stride.raw * itemsize % 16).any() for stride in desc.strides[:-1]):
                refuse("a descriptor that is not aligned")
            if (desc.strides[-1].raw != 1).any():
                refuse("a descriptor whose last dimension is not contiguous")
            return
        original(desc)

    return validate


def _descriptor_load(_builder: Any, desc: Any, indices: Any, *_: Any, **__: Any) -> Any:
    ptrs, mask = desc.materialize_pointers(indices)
    dtype = ptrs.get_element_ty()
    loaded = _read(ptrs, mask, _padding(desc.padding, dtype))
    if getattr(desc, "round_f32_to_tf32", False) and dtype == tl.float32:
        return type(loaded)(round_tf32(loaded.raw), dtype)
    return loaded


def _descriptor_store(_builder: Any, desc: Any, value: Any, indices: Any) -> None:
    ptrs, mask = desc.materialize_pointers(indices)
    _write(ptrs, value, mask)


def _descriptor_gather(builder: Any, desc: Any, x_offsets: Any, y_offset: Any, _type: Any) -> Any:
    rows = [
        _descriptor_load(builder, desc, [Handle(x_offsets.data[i : i + 1], tl.int32), y_offset]).data
        for i in range(x_offsets.data.shape[0])
    ]
    return Handle(np.concatenate(rows), desc.base.dtype.element_ty)


def _descriptor_scatter(builder: Any, desc: Any, value: Any, x_offsets: Any, y_offset: Any) -> None:
    for i in range(x_offsets.data.shape[0]):
        row = Handle(value.data[i : i + 1], value.dtype)
        _descriptor_store(builder, desc, row, [Handle(x_offsets.data[i : i + 1], tl.int32), y_offset])


def _atomic_load(builder: Any, ptr: Any, mask: Any, *_: Any) -> Any:
    state.current.session.memory.begin_atomic()
    return _masked_load(builder, ptr, mask, None)


def _atomic_store(builder: Any, ptr: Any, value: Any, mask: Any, *_: Any) -> None:
    state.current.session.memory.begin_atomic()
    _masked_store(builder, ptr, value, mask)


def _atomic_poll(builder: Any, ptr: Any, expected: Any, *_: Any) -> Any:
    """One look decides: programs run one after the other, so what isn't there yet will not come."""
    state.current.session.memory.begin_atomic()
    seen = _load(builder, ptr)
    if not (seen.data == expected.data).all():
        state.unsupported("a loop that waits for another program")
    return Handle(seen.data == expected.data, tl.int1)


class _NoNativeAccess:
    """Stands in for Triton's native lane loop: constants pass, memory access doesn't."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def __getattr__(self, name: str) -> Any:
        if name in ("load", "store", "atomic_rmw", "atomic_cas"):
            state.unsupported(f"an unchecked memory access ({name})")
        return getattr(self._native, name)


def install() -> None:
    """Replace every builder method that touches memory."""
    methods = {
        "load": _load,
        "masked_load": _masked_load,
        "store": _store,
        "masked_store": _masked_store,
        "tensor_pointer_load": _block_pointer_load,
        "tensor_pointer_store": _block_pointer_store,
        "descriptor_load": _descriptor_load,
        "descriptor_store": _descriptor_store,
        "descriptor_gather": _descriptor_gather,
        "descriptor_scatter": _descriptor_scatter,
        "atomic_load": _atomic_load,
        "atomic_store": _atomic_store,
        "atomic_poll": _atomic_poll,
    }
    for name, method in methods.items():
        setattr(interpreter.InterpreterBuilder, f"create_{name}", method)
    interpreter.TensorDescHandle.materialize_pointers = _descriptor_pointers
    interpreter.TensorDescHandle.validate = _validate(interpreter.TensorDescHandle.validate)
    if hasattr(interpreter, "BlockPointerHandle"):
        handle = interpreter.BlockPointerHandle
        handle.materialize_pointers = _block_pointers(handle.materialize_pointers)
        builder = interpreter.InterpreterBuilder
        builder.create_advance = _advance(builder.create_advance)
    interpreter._interpreter = _NoNativeAccess(interpreter._interpreter)

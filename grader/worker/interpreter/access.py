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

Array = np.ndarray[Any, Any]
Handle = interpreter.TensorHandle


def _data(value: Any) -> Any:
    return value.data if isinstance(value, Handle) else value


def _load(_builder: Any, ptr: Any, *_: Any, **__: Any) -> Any:
    dtype = ptr.get_element_ty()
    return Handle(state.current.session.memory.load(ptr.data, None, None, dtype), dtype)


def _masked_load(_builder: Any, ptrs: Any, mask: Any, other: Any, *_: Any, **__: Any) -> Any:
    dtype = ptrs.get_element_ty()
    return Handle(state.current.session.memory.load(ptrs.data, _data(mask), _data(other), dtype), dtype)


def _store(_builder: Any, ptr: Any, val: Any, *_: Any, **__: Any) -> None:
    state.current.session.memory.store(ptr.data, val.data, None, ptr.get_element_ty())


def _masked_store(_builder: Any, ptrs: Any, value: Any, mask: Any, *_: Any, **__: Any) -> None:
    state.current.session.memory.store(ptrs.data, value.data, _data(mask), ptrs.get_element_ty())


def _padding(option: Any, dtype: Any) -> Array | None:
    if option == ir.PADDING_OPTION.PAD_NAN:
        return np.full(1, np.nan, dtype=numpy_dtype(dtype))
    return None  # zero


def _block_pointer_load(_builder: Any, ptr: Any, boundary_check: Any, padding_option: Any, *_: Any, **__: Any) -> Any:
    ptrs, mask = ptr.materialize_pointers(boundary_check)
    dtype = ptrs.get_element_ty()
    return Handle(
        state.current.session.memory.load(ptrs.data, _data(mask), _padding(padding_option, dtype), dtype), dtype
    )


def _block_pointer_store(_builder: Any, ptr: Any, value: Any, boundary_check: Any, *_: Any, **__: Any) -> None:
    ptrs, mask = ptr.materialize_pointers(boundary_check)
    state.current.session.memory.store(ptrs.data, value.data, _data(mask), ptrs.get_element_ty())


def _descriptor_pointers(desc: Any, offsets: Any) -> tuple[Any, Any]:
    """Addresses and mask of a descriptor's block; a block may start at any offset, also before the tensor."""
    element = desc.base.dtype.element_ty
    itemsize = max(1, element.primitive_bitwidth // 8)
    addresses = np.broadcast_to(desc.base.data, desc.block_shape)
    mask = np.ones(desc.block_shape, dtype=bool)
    for dim, length in enumerate(desc.block_shape):
        shape = [1] * len(desc.block_shape)
        shape[dim] = length
        start = np.asarray(offsets[dim].data).astype(np.int64)
        index = (start.reshape(-1)[:1] + np.arange(length)).reshape(shape)
        addresses = addresses + (index * np.int64(itemsize) * desc.strides[dim].data.astype(np.int64)).astype(np.uint64)
        mask = mask & (index >= 0) & (index < desc.shape[dim].data)
    return Handle(addresses, desc.base.dtype.scalar), Handle(mask, tl.int1)


def _descriptor_load(_builder: Any, desc: Any, indices: Any, *_: Any, **__: Any) -> Any:
    ptrs, mask = desc.materialize_pointers(indices)
    dtype = ptrs.get_element_ty()
    data = state.current.session.memory.load(ptrs.data, _data(mask), _padding(desc.padding, dtype), dtype)
    if getattr(desc, "round_f32_to_tf32", False) and dtype == tl.float32:
        data = round_tf32(data)
    return Handle(data, dtype)


def _descriptor_store(_builder: Any, desc: Any, value: Any, indices: Any) -> None:
    ptrs, mask = desc.materialize_pointers(indices)
    state.current.session.memory.store(ptrs.data, value.data, _data(mask), ptrs.get_element_ty())


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
    state.current.session.memory.atomics = True
    return _masked_load(builder, ptr, mask, None)


def _atomic_store(builder: Any, ptr: Any, value: Any, mask: Any, *_: Any) -> None:
    state.current.session.memory.atomics = True
    _masked_store(builder, ptr, value, mask)


def _atomic_poll(builder: Any, ptr: Any, expected: Any, *_: Any) -> Any:
    """One look decides: programs run one after the other, so what isn't there yet will not come."""
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
    interpreter._interpreter = _NoNativeAccess(interpreter._interpreter)

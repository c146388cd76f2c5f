"""Atomic read-modify-write and compare-and-swap on checked memory (untrusted worker side).

Lanes of one block act one after the other, as the hardware may do it; the old value of each lane is what it saw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter

from . import numerics
from .memory import Memory, poison

Array = np.ndarray[Any, Any]


def _exchange(_old: Array, new: Array) -> Array:
    return new


def _unsigned(operation: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """UMIN and UMAX compare bits as unsigned, whatever the pointer's type says."""

    def compare(old: Array, new: Array) -> Array:
        view = np.dtype(f"u{old.dtype.itemsize}")
        return operation(old.view(view), new.view(view)).view(old.dtype)

    return compare


OPERATIONS: dict[Any, Callable[[Array, Array], Array]] = {
    ir.ATOMIC_OP.ADD: np.add,
    ir.ATOMIC_OP.FADD: np.add,
    ir.ATOMIC_OP.MIN: np.minimum,
    ir.ATOMIC_OP.MAX: np.maximum,
    ir.ATOMIC_OP.UMIN: _unsigned(np.minimum),
    ir.ATOMIC_OP.UMAX: _unsigned(np.maximum),
    ir.ATOMIC_OP.AND: np.bitwise_and,
    ir.ATOMIC_OP.OR: np.bitwise_or,
    ir.ATOMIC_OP.XOR: np.bitwise_xor,
    ir.ATOMIC_OP.XCHG: _exchange,
}


def update(
    memory: Memory,
    addresses: Array,
    mask: Array,
    dtype: Any,
    change: Callable[..., Array],
    *lane_operands: Array,
) -> Array:
    """Replace each active element by `change(old, its operands)`; returns the old values, zero in inactive lanes."""
    kind = numerics.memory_dtype(dtype)
    size = kind.itemsize
    active = np.broadcast_to(mask, addresses.shape)
    old = np.zeros(addresses.size, dtype=numerics.numpy_dtype(dtype))
    seen = np.zeros(addresses.size, dtype=bool)
    operands = [np.broadcast_to(operand, addresses.shape).ravel() for operand in lane_operands]
    memory.progress += 1
    for region, lanes, offsets in memory.resolve(addresses, active, size, "atomic"):
        memory.atomic_keys.add(region.key)
        if memory.polled is not None:
            memory.polled.add(region.key)
        aligned = offsets % size == 0
        lanes, offsets = lanes[aligned], offsets[aligned]
        flat = region.flat(kind)
        index = offsets // size
        for chunk in _rounds(index):
            before = numerics.from_memory(dtype, flat[index[chunk]])
            after = numerics.rounded(change(before, *(operand[lanes[chunk]] for operand in operands)), dtype)
            bits = numerics.to_memory(dtype, after)
            if not np.array_equal(bits, flat[index[chunk]]):
                memory.version += 1
            flat[index[chunk]] = bits
            old[lanes[chunk]] = before
        seen[lanes] = True
        region.touch("loaded", index, size)
        region.touch("stored", index, size)
    record = memory.session.record
    record.bytes_loaded += int(seen.sum()) * size
    record.bytes_stored += int(seen.sum()) * size
    missed = active.ravel() & ~seen
    return np.where(missed, poison(dtype), old).reshape(addresses.shape)


def _rounds(index: Array) -> list[Array]:
    """Positions grouped so that no group holds an element twice, in lane order."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if index.size else np.zeros(0, dtype=np.int64)
    rank = np.arange(index.size) - np.repeat(starts, np.diff(np.r_[starts, index.size]))
    return [order[rank == turn] for turn in range(int(rank.max()) + 1)] if index.size else []


def install(memory: Callable[[], Memory]) -> None:
    """Route the builder's atomics through the checked memory."""
    handle = interpreter.TensorHandle

    def rmw(_builder: Any, operation: Any, ptr: Any, val: Any, mask: Any, *_: Any) -> Any:
        dtype = ptr.get_element_ty()
        apply = OPERATIONS[operation]
        memory().begin_atomic(orders=dtype.is_int())
        old = update(memory(), ptr.data, mask.data, dtype, apply, val.data)
        return handle(old, val.dtype.scalar)

    def cas(_builder: Any, ptr: Any, cmp: Any, val: Any, *_: Any) -> Any:
        dtype = ptr.get_element_ty()
        memory().begin_atomic()

        def swap(before: Array, expected: Array, desired: Array) -> Array:
            return np.where(before == expected, desired, before)

        everywhere = np.ones(ptr.data.shape, dtype=bool)
        old = update(memory(), ptr.data, everywhere, dtype, swap, cmp.data, val.data)
        return handle(old, cmp.dtype.scalar)

    reductions = {
        name: getattr(ir.ATOMIC_OP, name)
        for name in ("ADD", "MIN", "MAX", "AND", "OR", "XOR")
        if hasattr(ir.DESCRIPTOR_REDUCE_KIND, name)
    }

    def descriptor_reduce(builder: Any, kind: Any, desc: Any, value: Any, indices: Any) -> None:
        dtype = desc.base.dtype.element_ty
        name = str(kind).rpartition(".")[2]
        unsigned = dtype.is_int_unsigned() and name in ("MIN", "MAX")
        operation = getattr(ir.ATOMIC_OP, f"U{name}") if unsigned else reductions[name]
        ptrs, mask = desc.materialize_pointers(indices)
        everywhere = mask if isinstance(mask, handle) else handle(mask, tl.int1)
        rmw(builder, operation, ptrs, value, everywhere)

    builder_class = interpreter.InterpreterBuilder
    builder_class.create_atomic_rmw, builder_class.create_atomic_cas = rmw, cas
    builder_class.create_descriptor_reduce = descriptor_reduce

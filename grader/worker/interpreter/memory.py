"""Every memory access of an interpreted kernel: checked, counted, and done by numpy (untrusted worker side).

An access outside its tensor is suppressed and recorded: a load gives NaN (or a conspicuous integer), a store is
dropped, the run goes on. No address is dereferenced before it is known to lie inside a tensor.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import triton

from . import formats, state
from .numerics import from_memory, memory_dtype, numpy_dtype, to_memory
from .programs import Programs, refuse
from .regions import TAG_SHIFT, Region, Regions

Array = np.ndarray[Any, Any]
Key = tuple[int, int, int]

_OWN_FOLDERS = tuple(
    f"{folder}/"
    for module in (__file__, triton.__file__, np.__file__)
    for folder in {Path(module).parent, Path(module).resolve().parent}
)
_ZERO = np.uint64(0)
_SHIFTS = {1 << bits: np.uint64(bits) for bits in range(4)}  # a division of uint64 by 1, 2, 4 or 8
_POISON_BYTE = 0x6B


class Memory:
    """The memory of one call; `writers` and `atomics` belong to the launch in progress."""

    def __init__(self, session: state.Session) -> None:
        self.session = session
        self.regions = Regions()
        self.program_index = 0
        self.programs: Programs | None = None  # those that run together at the moment
        self.together: Any = None  # a `Together`, which builds on this
        self.writers: dict[Key, Array] = {}
        self.atomics = False
        self.ordered = False  # by atomics that programs may wait for each other with
        self.atomic_keys: set[Key] = set()
        self.polled: set[Key] | None = None  # collects what is loaded, while somebody wants to know
        self.version = 0  # grows when memory changes; `progress` and it together show a spin-wait
        self.progress = 0

    def begin_launch(self) -> None:
        """Forget which program wrote what: launches on one stream are ordered."""
        self.writers.clear()
        self.atomic_keys.clear()
        self.atomics = self.ordered = False
        self.polled = None

    def begin_atomic(self, *, orders: bool = True) -> None:
        """Note that the launch uses atomics, which see the programs before them.

        `orders` is False for additions of floats, which no program can wait for another by.
        """
        if self.together is not None:
            refuse("atomics", lasting=True)
        self.ordered |= orders
        self.atomics = True

    def load(
        self, addresses: Array, mask: Array | None, other: Array | None, dtype: Any, spread: bool = False
    ) -> Array:
        """Values at `addresses` (uint64); inactive lanes give `other`, or zero.

        `spread` where an operand has an axis of programs in front.
        """
        if self.together is not None:
            values: Array = self.together.load(addresses, mask, other, dtype, spread)
            return values
        kind = memory_dtype(dtype)
        region, index = self.fast(addresses, mask, kind.itemsize)
        record = self.session.record
        active = addresses.size if mask is None else int(np.count_nonzero(mask))
        if region is None or index is None:
            values, lanes = self._load_slowly(addresses, mask, dtype, kind)
            record.bytes_loaded += lanes * kind.itemsize
        else:
            record.bytes_loaded += active * kind.itemsize
            values = from_memory(dtype, region.flat(kind).take(index))
            touched = index if active else index.reshape(-1)[:0]
            region.touch("loaded", touched, kind.itemsize)
            if self.writers:
                self._check_order(region, touched)
            if self.polled is not None:
                self.polled.add(region.key)
        if active != addresses.size:
            filler = np.zeros(1, dtype=values.dtype) if other is None else other
            values = np.where(mask, values, filler)  # type: ignore[arg-type]
        self.progress += 1
        return values

    def store(self, addresses: Array, values: Array, mask: Array | None, dtype: Any, spread: bool = False) -> None:
        """Write the active lanes; of lanes with one address the last wins."""
        if self.together is not None:
            self.together.store(addresses, values, mask, dtype, spread)
            return
        kind = memory_dtype(dtype)
        region, index = self.fast(addresses, mask, kind.itemsize)
        data = to_memory(dtype, values)
        if data.shape != addresses.shape:
            data = np.broadcast_to(data, addresses.shape)
        self.version += 1
        if region is None or index is None:
            lanes = self._store_slowly(addresses, mask, data, kind)
            self.session.record.bytes_stored += lanes * kind.itemsize
            return
        if mask is not None and not mask.all():
            index, data = index[mask], data[mask]
        # Flat and in order: numpy may walk an array of several axes in another order.
        index, data = index.reshape(-1), data.reshape(-1)
        memory, writer = region.flat(kind), self.writer(region)
        last = writer.take(index)
        if last.size and last.max() >= 0:
            self.check_overwritten(region, (last >= 0) & (last != self.program_index), memory.take(index), data)
        memory[index] = data
        self.session.record.bytes_stored += index.size * kind.itemsize
        region.touch("stored", index, kind.itemsize)
        writer[index] = self.program_index

    # ------------------------------------------------------------ the common case

    def fast(self, addresses: Array, mask: Array | None, size: int) -> tuple[Region | None, Array | None]:
        """The region and element indices if all active lanes lie in one region of elements of this size.

        Inactive lanes get the element of an active one, or the first if there is none.
        """
        if not addresses.size:
            return None, None
        tag = addresses.item(0) >> TAG_SHIFT
        tagged = self.regions.tagged
        region = tagged[tag] if tag < len(tagged) else None
        if region is None or region.itemsize != size or region.span < size:
            return None, None
        offsets = addresses - region.tagged_low
        if mask is not None and not mask.all():
            first = int(mask.argmax())
            np.copyto(offsets, offsets.flat[first] if mask.flat[first] else _ZERO, where=~mask)
        if offsets.max() > region.span - size:
            return None, None
        index = (offsets >> _SHIFTS[size]).view(np.int64)
        if region.present is not None and not region.present.take(index).all():
            return None, None
        return region, index

    def writer(self, region: Region) -> Array:
        """Per element of a region the program of this launch that stored it last, or -1."""
        writer = self.writers.get(region.key)
        if writer is None:
            writer = self.writers[region.key] = np.full(region.elements, -1, dtype=np.int32)
        return writer

    def _check_order(self, region: Region, index: Array) -> None:
        writer = self.writers.get(region.key)
        if writer is None or self.atomics:
            return
        last = writer.take(index)
        if ((last >= 0) & (last != self.program_index)).any():
            file, line = student_line()
            self.session.record.warn(
                f"{file}:{line}: loads elements of '{region.name}' that another program of the same launch stored; "
                "programs run in any order on a GPU, so this needs atomics or another launch"
            )

    def check_overwritten(self, region: Region, foreign: Array, before: Array, after: Array) -> None:
        """Warn where a program replaces what another one of the launch stored by something else, roundings apart."""
        if self.ordered or not foreign.any():
            return
        record = self.session.record
        known = any(f"'{region.name}' that another program" in warning for warning in record.warnings)
        if not known and formats.differ(before[foreign], after[foreign]):
            file, line = student_line()
            record.warn(
                f"{file}:{line}: stores to elements of '{region.name}' that another program of the same launch stored "
                "with other values; which of them is left is chance on a GPU"
            )

    # ------------------------------------------------------------ anything else

    def resolve(self, addresses: Array, active: Array, size: int, action: str) -> list[tuple[Region, Array, Array]]:
        """Split the active lanes by region, and record those that lie in none.

        Returns tuples of region, flat lane numbers and byte offsets into the region.
        """
        flat = addresses.ravel()
        lanes = np.flatnonzero(active.ravel())
        total = lanes.size
        found: list[tuple[Region, Array, Array]] = []
        tags = flat[lanes] >> np.uint64(TAG_SHIFT)
        for tag in np.unique(tags):
            remaining = lanes[tags == tag]
            candidates = self.regions.candidates(int(tag) << TAG_SHIFT)
            for region in candidates:
                offsets = flat[remaining] - region.tagged_low
                good = region.owned(offsets, size)
                if good.any():
                    found.append((region, remaining[good], offsets[good].astype(np.int64)))
                remaining = remaining[~good]
            if remaining.size:
                region_named = candidates[0] if int(tag) and candidates else None
                self._fault(action, region_named, flat[remaining], size, total)
        return found

    def _load_slowly(self, addresses: Array, mask: Array | None, dtype: Any, kind: np.dtype[Any]) -> tuple[Array, int]:
        active = np.ones(addresses.shape, dtype=bool) if mask is None else np.broadcast_to(mask, addresses.shape)
        size = kind.itemsize
        raw = np.zeros((addresses.size, size), dtype=np.uint8)
        read = np.zeros(addresses.size, dtype=bool)
        for region, lanes, offsets in self.resolve(addresses, active, size, "load"):
            raw[lanes] = region.flat(np.dtype(np.uint8))[offsets[:, None] + np.arange(size)]
            read[lanes] = True
            if self.polled is not None:
                self.polled.add(region.key)
            region.touch("loaded", offsets // region.itemsize, region.itemsize)
        values = from_memory(dtype, raw.view(kind).reshape(addresses.shape))
        missed = active & ~read.reshape(addresses.shape)
        return np.where(missed, poison(dtype), values), int(read.sum())

    def _store_slowly(self, addresses: Array, mask: Array | None, data: Array, kind: np.dtype[Any]) -> int:
        active = np.ones(addresses.shape, dtype=bool) if mask is None else np.broadcast_to(mask, addresses.shape)
        size = kind.itemsize
        raw = np.ascontiguousarray(data).reshape(-1, 1).view(np.uint8)
        written = 0
        for region, lanes, offsets in self.resolve(addresses, active, size, "store"):
            region.flat(np.dtype(np.uint8))[offsets[:, None] + np.arange(size)] = raw[lanes]
            index = offsets // region.itemsize
            region.touch("stored", index, region.itemsize)
            self.writer(region)[index] = self.program_index
            written += lanes.size
        return written

    def _fault(self, action: str, region: Region | None, addresses: Array, size: int, active_lanes: int) -> None:
        record = self.session.record
        if not self.session.options.memory_check:
            return
        record.fault_count += 1
        file, line = student_line()
        name = region.name if region is not None else None
        if len(record.faults) >= state.KEPT_FAULTS or any(
            (fault.file, fault.line, fault.kind, fault.argument) == (file, line, action, name)
            for fault in record.faults
        ):
            return
        program = list(self.session.program or ())
        bytes_past = 0
        if region is None:
            what, where = "an address of no argument", ""
        else:
            shape = f"({', '.join(map(str, region.shape))}{',' if len(region.shape) == 1 else ''})"
            what = f"'{name}' ({region.dtype_name} {shape})"
            bytes_past, where = _distance(region, addresses, size)
        verb = f"{action} outside" if region is not None else f"{action} at"
        message = (
            f"{file}:{line}: {verb} {what}: {addresses.size} of {active_lanes} lanes{where}; "
            f"program ({', '.join(map(str, program))})"
        )
        record.faults.append(
            state.Fault(
                action, file, line, name, region.dtype_name if region else "", region.shape if region else [],
                int(addresses.size), int(active_lanes), bytes_past, program, message,
            )
        )  # fmt: skip


def _distance(region: Region, addresses: Array, size: int) -> tuple[int, str]:
    """How far outside the region the worst lane is, in bytes and in words."""
    offsets = (addresses - region.tagged_low).view(np.int64)
    past = int(offsets.max()) + size - region.span
    before = -int(offsets.min())
    if past > 0 and past >= before:
        return past, f", up to {past} bytes past its end"
    if before > 0:
        return -before, f", up to {before} bytes before its start"
    return 0, ", between its elements (padding that is not part of the view)"


def poison(dtype: Any) -> Array:
    """What a suppressed load gives: NaN, or an integer that is not plausible."""
    kind = numpy_dtype(dtype)
    if kind.kind == "f":
        return np.full(1, np.nan, dtype=kind)
    return np.full(kind.itemsize, _POISON_BYTE, dtype=np.uint8).view(kind)


def student_line() -> tuple[str, int]:
    """File name and line of the innermost running statement that is the submission's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith((*_OWN_FOLDERS, "<")):
            return Path(filename).name, frame.f_lineno
        frame = frame.f_back
    return "<unknown>", 0

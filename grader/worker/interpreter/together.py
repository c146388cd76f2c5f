"""Memory accesses of programs that run together: the order check and the way back (untrusted worker side).

One after the other, a program sees all stores of the programs before it and none of those after it. Together they give
the same as long as no program loads what another stores, nor stores what a later one has loaded or stored. Every access
is held against that; where it fails, or leaves its tensor, the batch is refused and everything it did is undone.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .memory import Key, Memory
from .numerics import from_memory, memory_dtype, to_memory
from .programs import Programs, Refused, TooWide, refuse
from .regions import Region

Array = np.ndarray[Any, Any]

LANES = 1 << 20
_REMEMBERED_LANES = 1 << 22
_COUNTERS = ("bytes_loaded", "bytes_stored")


@dataclasses.dataclass
class _Reads:
    """What the batch loaded from one region: index, mask and programs of each load."""

    kept: list[tuple[Array, Array | None, Array]] = dataclasses.field(default_factory=list)
    lanes: int = 0
    latest: Array | None = None  # per element the last program that loaded it


class Together:
    """Memory as one batch of programs sees it."""

    def __init__(self, memory: Memory, patience: int = 20_000) -> None:
        self.memory = memory
        self.patience = patience  # rounds of a loop in which nothing changes
        self.reads: dict[Key, _Reads] = {}
        self.regions: dict[Key, Region] = {}
        self.stored: set[Key] = set()
        self._log: list[tuple[Array, Array | slice, Any]] = []
        self._maps: dict[tuple[Region, str], Array | None] = {}
        record = memory.session.record
        self._warnings, self._unsupported = len(record.warnings), record.unsupported
        self._start = self.mark()

    # ------------------------------------------------------------ the way back

    def mark(self) -> tuple[int, tuple[int, ...]]:
        """The point that `back` can return to."""
        record = self.memory.session.record
        return len(self._log), tuple(getattr(record, name) for name in _COUNTERS)

    def back(self, mark: tuple[int, tuple[int, ...]]) -> None:
        """Undo the stores and counts since `mark`.

        What was loaded since stays noted: the same programs load it again.
        """
        length, counters = mark
        while len(self._log) > length:
            array, index, before = self._log.pop()
            array[index] = before
        for name, value in zip(_COUNTERS, counters, strict=True):
            setattr(self.memory.session.record, name, value)

    def undo(self) -> None:
        """Leave no trace of the batch."""
        self.back(self._start)
        for (region, kind), before in self._maps.items():
            setattr(region, kind, before)
        record = self.memory.session.record
        del record.warnings[self._warnings :]
        record.unsupported = self._unsupported

    def _write(self, array: Array, index: Array, values: Any) -> None:
        if 4 * index.size > array.size:  # cheaper to keep whole
            self._log.append((array, slice(None), array.copy()))
        else:
            self._log.append((array, index, array.take(index)))
        array[index] = values

    def _touch(self, region: Region, kind: str, index: Array, size: int) -> None:
        if (region, kind) not in self._maps:
            seen = getattr(region, kind)
            self._maps[region, kind] = None if seen is None else seen.copy()
        region.touch(kind, index, size)

    # ------------------------------------------------------------ accesses

    def load(self, addresses: Array, mask: Array | None, other: Array | None, dtype: Any, spread: bool) -> Array:
        """As `Memory.load`, for all programs; without `spread` each program loads the same."""
        memory, programs = self.memory, self._programs()
        kind = memory_dtype(dtype)
        if spread:
            addresses = _broadcast(addresses, mask, other)
        region, index, mask = self._resolved(addresses, mask, kind.itemsize, spread)
        key = region.key
        active = index.size if mask is None else int(np.count_nonzero(mask))
        everywhere = active == index.size
        values = from_memory(dtype, region.flat(kind).take(index))
        if active:
            self._touch(region, "loaded", index, kind.itemsize)
        memory.session.record.bytes_loaded += active * kind.itemsize * (1 if spread else programs.count)
        memory.progress += 1
        self._meet(region, storing=False)
        column = programs.column(index.ndim - 1) if spread else np.full(1, programs.last)
        if key in memory.writers:
            last = memory.writers[key].take(index)
            foreign = (last >= 0) & (last != column) if spread or programs.count == 1 else last >= 0
            if (foreign if mask is None else foreign & mask).any():
                refuse("loads what another program stored")
        reads = self.reads.setdefault(key, _Reads())
        reads.lanes += index.size
        if reads.lanes <= _REMEMBERED_LANES:
            reads.kept.append((index, None if everywhere else mask, column))
        if not everywhere:
            values = np.where(mask, values, np.zeros(1, dtype=values.dtype) if other is None else other)  # type: ignore[arg-type]
        return values

    def store(self, addresses: Array, values: Array, mask: Array | None, dtype: Any, spread: bool) -> None:
        """As `Memory.store`, for all programs; without `spread` each program stores the same."""
        memory, programs = self.memory, self._programs()
        kind = memory_dtype(dtype)
        if spread:
            addresses = _broadcast(addresses, mask, values)
        region, index, mask = self._resolved(addresses, mask, kind.itemsize, spread)
        data = np.broadcast_to(to_memory(dtype, values), index.shape)
        memory.version += 1
        # Lanes in the order of programs, so that of lanes with one element the last program's counts, as in the loop.
        if mask is None or mask.all():
            counts, index, data = index.size // programs.count, index.reshape(-1), data.reshape(-1)
        else:
            counts, index, data = np.count_nonzero(mask.reshape(mask.shape[0], -1), axis=1), index[mask], data[mask]
        places = programs.index.repeat(counts) if spread else programs.last
        first = places if spread else programs.first
        self._meet(region, storing=True)
        fresh = region.key not in memory.writers
        writer = memory.writer(region)
        if not fresh and (writer.take(index) > first).any():
            refuse("stores what a later program stored")
        if region.key in self.reads and (self._latest(region).take(index) > first).any():
            refuse("stores what a later program loaded")
        stored = region.flat(kind)
        if not fresh:
            last = writer.take(index)
            memory.check_overwritten(region, (last >= 0) & (last < first), stored.take(index), data)
        self._write(stored, index, data)
        if fresh:
            self._log.append((writer, slice(None), -1))
            writer[index] = places
        else:
            self._write(writer, index, places)
        if spread:
            # Of lanes with one element the last program's is left.
            memory.check_overwritten(region, writer.take(index) != places, stored.take(index), data)
        memory.session.record.bytes_stored += index.size * kind.itemsize * (1 if spread else programs.count)
        self._touch(region, "stored", index, kind.itemsize)

    def _programs(self) -> Programs:
        programs = self.memory.programs
        assert programs is not None
        return programs

    def _resolved(
        self, addresses: Array, mask: Array | None, size: int, spread: bool
    ) -> tuple[Region, Array, Array | None]:
        """The one region that all lanes lie in, their elements, and the mask at the same shape."""
        if mask is not None and mask.shape != addresses.shape:
            shape = np.broadcast_shapes(mask.shape, addresses.shape)
            mask, addresses = np.broadcast_to(mask, shape), np.broadcast_to(addresses, shape)
        programs = self._programs()
        if spread:
            if addresses.shape[0] != programs.count:
                refuse("an access of another shape than its programs")
            if addresses.size > LANES:
                raise TooWide(addresses.size // programs.count)
        region, index = self.memory.fast(addresses, mask, size)
        if region is None or index is None:
            raise Refused(
                "an access outside a tensor, or to several tensors at once",
                program=self._first_outside(addresses, mask, size) if spread else None,
            )
        return region, index, mask

    def _first_outside(self, addresses: Array, mask: Array | None, size: int) -> int | None:
        """The first program whose lanes aren't in one region, if the programs before it may run without it."""
        programs = self._programs()
        low, high = 0, programs.count  # all of `low` programs are right, not all of `high`
        while high - low > 1:
            middle = (low + high) // 2
            right = self.memory.fast(addresses[:middle], None if mask is None else mask[:middle], size)[1] is not None
            low, high = (middle, high) if right else (low, middle)
        return int(programs.index[low])

    # ------------------------------------------------------------ the order check

    def _meet(self, region: Region, storing: bool) -> None:
        """Refuse different views of the same memory where one is stored to: elements are compared within a view."""
        key = region.key
        if key in self.regions and (not storing or key in self.stored):
            return
        self.regions[key] = region
        if storing:
            self.stored.add(key)
        low, high = region.low, region.low + region.span
        for other_key, other in self.regions.items():
            overlaps = other_key != key and other.low < high and low < other.low + other.span
            if overlaps and (storing or other_key in self.stored):
                refuse("stores to two views of the same memory")

    def _latest(self, region: Region) -> Array:
        """Per element of a region the last program that loaded it, or -1."""
        reads = self.reads[region.key]
        if reads.lanes > _REMEMBERED_LANES:
            refuse("too many loads from what is stored")
        if reads.latest is None:
            reads.latest = np.full(region.elements, -1, dtype=np.int32)
        for index, mask, column in reads.kept:
            places = np.broadcast_to(column, index.shape)
            if mask is not None:
                index, places = index[mask], places[mask]
            index, places = index.reshape(-1), places.reshape(-1)
            # Lanes are in the order of programs, and of lanes with one element the last counts.
            reads.latest[index] = np.maximum(reads.latest.take(index), places)
        reads.kept.clear()
        return reads.latest


def _broadcast(addresses: Array, *others: Array | None) -> Array:
    shape = np.broadcast_shapes(addresses.shape, *(other.shape for other in others if other is not None))
    return addresses if addresses.shape == shape else np.broadcast_to(addresses, shape)

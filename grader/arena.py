"""Trusted side: the memory in which a case lies, shared with the worker as a file descriptor.

A sealed memfd of fixed size, or device memory on a GPU. Each tensor of a case is laid into it between guard bands of
sentinel bytes; gaps inside a strided tensor's storage are sentinel bytes too. The judge keeps its own copy of all that
it wrote, so a worker that overwrites an input or a guard band is seen, and one that reads past an input reads NaN.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from reference.exercise import DTYPES, Case, TensorSpec
from reference.values import make

from .errors import InfrastructureError

# 16-bit words that are NaN in float16 and bfloat16, and in pairs NaN in float32. Two of them, so that a kernel that
# copies what lies before a tensor to what lies behind it is seen.
GUARD_BEFORE = 0x7FE5
GUARD_AFTER = 0xFFD3
OUTPUT_POISON = 0xFFE9
GUARD_BYTES = 4096
ALIGNMENT = 256


@dataclass(frozen=True)
class Placed:
    """An input in the arena. `start` and `nbytes` bound its storage; offsets in bytes, strides in elements."""

    spec: TensorSpec
    dtype: str
    start: int
    nbytes: int
    view_offset: int
    strides: tuple[int, ...]

    def to_message(self) -> dict[str, object]:
        """What the worker needs to make the view."""
        return {
            "name": self.spec.name,
            "dtype": self.dtype,
            "shape": list(self.spec.shape),
            "strides": list(self.strides),
            "offset": self.view_offset,
        }


@dataclass(frozen=True)
class Laid:
    """A case laid into the arena: its inputs, the region for outputs, and the bytes as the judge wrote them."""

    inputs: tuple[Placed, ...]
    output_offset: int
    output_capacity: int
    written: bytes


class Memory(Protocol):
    """What an arena lies in: bytes that a worker can map by a file descriptor."""

    size: int
    fd: int

    def write(self, data: bytes) -> None:
        """Put `data` at the start."""

    def read(self, size: int) -> bytes:
        """A copy of the first `size` bytes."""

    def close(self) -> None:
        """Give the judge's mapping back. The worker's own lives until it dies."""


class HostMemory:
    """A memfd of fixed size."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.fd = os.memfd_create("arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        # A worker that could shrink the file would kill the judge with SIGBUS at its next read.
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._map = mmap.mmap(self.fd, size)

    def write(self, data: bytes) -> None:
        """Put `data` at the start."""
        self._map[: len(data)] = data

    def read(self, size: int) -> bytes:
        """A copy of the first `size` bytes."""
        return self._map[:size]

    def close(self) -> None:
        """Unmap and close."""
        self._map.close()
        os.close(self.fd)


class Arena:
    """Lays cases into memory that is shared with one worker. Close it when the worker is gone."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.size = memory.size
        self.fd = memory.fd

    def close(self) -> None:
        """Give the memory back."""
        self.memory.close()

    def lay(self, case: Case, output_bytes: int) -> Laid:
        """Write a case's inputs into the arena and poison the output region.

        Raises InfrastructureError where it is full.
        """
        placed: list[Placed] = []
        position = GUARD_BYTES
        blocks: list[tuple[int, np.ndarray]] = []
        for index, spec in enumerate(case.tensors):
            storage, view_offset, strides = storage_of(spec, case.dtype, case.seed, index)
            raw = storage.view(torch.uint8).numpy()
            itemsize = DTYPES[case.dtype].itemsize
            placed.append(Placed(spec, case.dtype, position, raw.nbytes, position + view_offset * itemsize, strides))
            blocks.append((position, raw))
            position = _aligned(position + raw.nbytes) + GUARD_BYTES
        capacity = _aligned(output_bytes)
        end = position + capacity + GUARD_BYTES
        if end > self.size:
            raise InfrastructureError(f"the case {case} needs {end} bytes of arena; it has {self.size}")
        image = np.full(end // 2, GUARD_AFTER, dtype=np.uint16)
        image[: GUARD_BYTES // 2] = GUARD_BEFORE
        image[position // 2 : (position + capacity) // 2] = OUTPUT_POISON
        as_bytes = image.view(np.uint8)
        for start, raw in blocks:
            before = (start - GUARD_BYTES // 2) // 2
            image[before : start // 2] = GUARD_BEFORE
            as_bytes[start : start + raw.nbytes] = raw
        written = as_bytes.tobytes()
        self.memory.write(written)
        return Laid(tuple(placed), position, capacity, written)

    def read(self, laid: Laid) -> bytes:
        """One copy of the used region. Judge this, not the arena: a worker may go on writing while it is read."""
        return self.memory.read(len(laid.written))


def storage_of(spec: TensorSpec, dtype: str, seed: int, index: int) -> tuple[Tensor, int, tuple[int, ...]]:
    """(storage, offset, strides): a flat tensor with the view's values in it and NaN in the gaps between them."""
    geometry = spec.geometry()
    values = make(spec.values, geometry.memory_shape, seed, index).to(DTYPES[dtype])
    gap = torch.tensor([GUARD_AFTER - 0x10000], dtype=torch.int16)
    words = geometry.storage_size * DTYPES[dtype].itemsize // 2
    storage = gap.expand(words).clone().view(DTYPES[dtype])
    memory_strides = tuple(s or 1 for s in geometry.strides)
    torch.as_strided(storage, geometry.memory_shape, memory_strides, geometry.offset).copy_(values)
    return storage, geometry.offset, geometry.strides


def logical_inputs(case: Case) -> list[Tensor]:
    """The case's inputs as the oracle wants them: rounded to the case's dtype, then float64, contiguous."""
    result = []
    for index, spec in enumerate(case.tensors):
        values = make(spec.values, spec.geometry().memory_shape, case.seed, index)
        result.append(values.to(DTYPES[case.dtype]).to(torch.float64).expand(spec.shape).contiguous())
    return result


@dataclass(frozen=True)
class Damage:
    """Bytes of the arena that are not as the judge wrote them, outside the output region."""

    argument: str
    in_elements: bool
    first_byte: int


def find_damage(laid: Laid, seen: bytes) -> Damage | None:
    """The first change to an input's elements or to the bytes around them, or None.

    `first_byte` counts from the start of the storage of `argument`; before it is negative. The output region itself
    may be written, and so is left out.
    """
    end = laid.output_offset
    after = laid.output_offset + laid.output_capacity
    if seen[:end] == laid.written[:end] and seen[after:] == laid.written[after:]:
        return None
    now, then = (np.frombuffer(data, dtype=np.uint8) for data in (seen, laid.written))
    changed = np.flatnonzero(now != then)
    changed = changed[(changed < end) | (changed >= after)]
    elements = [(placed, changed[_is_element(placed, changed)]) for placed in laid.inputs]
    for placed, hits in elements:
        if hits.size:
            return Damage(placed.spec.name, True, int(hits[0]) - placed.start)
    first = int(changed[0])
    nearest = min(laid.inputs, key=lambda p: min(abs(first - p.start), abs(first - p.start - p.nbytes)))
    return Damage(nearest.spec.name, False, first - nearest.start)


def output_offsets(laid: Laid, sizes: Sequence[int]) -> list[int]:
    """Where in the arena each output of a size in bytes lies: one behind the other, at multiples of ALIGNMENT."""
    return [laid.output_offset + output_capacity(sizes[:number]) for number in range(len(sizes))]


def read_output(laid: Laid, seen: bytes, sizes: Sequence[int]) -> list[bytes]:
    """The bytes of each output."""
    return [seen[at : at + size] for at, size in zip(output_offsets(laid, sizes), sizes, strict=True)]


def output_capacity(sizes: Sequence[int]) -> int:
    """Bytes of the output region for outputs of these sizes in bytes."""
    return sum(_aligned(size) for size in sizes)


def _is_element(placed: Placed, positions: np.ndarray) -> np.ndarray:
    """Which byte positions belong to elements of the view, not to gaps."""
    itemsize = DTYPES[placed.dtype].itemsize
    mask = np.zeros(placed.nbytes // itemsize, dtype=bool)
    offset = (placed.view_offset - placed.start) // itemsize
    strides = tuple(stride * mask.itemsize for stride in placed.strides)
    np.lib.stride_tricks.as_strided(mask[offset:], placed.spec.shape, strides)[...] = True
    inside = (positions >= placed.start) & (positions < placed.start + placed.nbytes)
    result = np.zeros(positions.shape, dtype=bool)
    result[inside] = mask[(positions[inside] - placed.start) // itemsize]
    return result


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT

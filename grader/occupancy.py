"""How many blocks of a kernel a multiprocessor holds, what limits them, and how a grid fills a GPU. Pure.

Limits and granularities are those of the CUDA C++ Programming Guide ("Technical Specifications per Compute Capability")
and of NVIDIA's occupancy calculator (cuda_occupancy.h in the CUDA toolkit).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

WARP_SIZE = 32
REGISTERS = 65536  # of a multiprocessor, 32 bits each
MOST_REGISTERS_PER_THREAD = 255
MOST_THREADS_PER_BLOCK = 1024
TENSOR_MEMORY_COLUMNS = 512  # of a multiprocessor, where there is tensor memory
_REGISTER_UNIT = 256  # registers are given to warps in units of so many
_SUB_PARTITIONS = 4  # each has a quarter of the registers, and a warp lives in one


@dataclass(frozen=True)
class Architecture:
    """The limits of one multiprocessor."""

    warps: int
    blocks: int
    shared_bytes: int
    reserved_bytes: int  # shared memory that the driver keeps of each block
    shared_unit: int  # shared memory is given to blocks in units of so many bytes

    @property
    def most_shared_per_block(self) -> int:
        """Shared memory that one block may ask for, in bytes."""
        return self.shared_bytes - self.reserved_bytes


ARCHITECTURES: Mapping[int, Architecture] = {
    75: Architecture(32, 16, 64 << 10, 0, 256),
    80: Architecture(64, 32, 164 << 10, 1024, 128),
    86: Architecture(48, 16, 100 << 10, 1024, 128),
    89: Architecture(48, 24, 100 << 10, 1024, 128),
    90: Architecture(64, 32, 228 << 10, 1024, 128),
    100: Architecture(64, 32, 228 << 10, 1024, 128),
    120: Architecture(48, 24, 100 << 10, 1024, 128),
}


@dataclass(frozen=True)
class Occupancy:
    """Blocks that fit a multiprocessor at a time; `limits` has what each resource alone would allow."""

    blocks: int
    warps: int
    share: float  # of the warps that the multiprocessor could hold
    limits: Mapping[str, int]

    @property
    def limited_by(self) -> str:
        """The resources that allow no more blocks: "registers", "shared memory", "warps", "blocks", "tensor memory"."""
        return ", ".join(name for name, blocks in self.limits.items() if blocks == self.blocks)


def occupancy(
    target: int, num_warps: int, registers: int, shared_bytes: int, tensor_memory_columns: int = 0
) -> Occupancy:
    """The blocks of `num_warps` warps that a multiprocessor of compute capability `target` holds.

    `registers` are per thread, `shared_bytes` and `tensor_memory_columns` per block. Zero blocks means that the kernel
    can't be launched. Raises KeyError for a capability that isn't in ARCHITECTURES.
    """
    chip = ARCHITECTURES[target]
    per_warp = _up(registers * WARP_SIZE, _REGISTER_UNIT)
    # A launch is refused as if each sub-partition had to hold an equal part of the block.
    fits = registers <= MOST_REGISTERS_PER_THREAD and per_warp * _up(num_warps, _SUB_PARTITIONS) <= REGISTERS
    warps_by_registers = REGISTERS // _SUB_PARTITIONS // per_warp * _SUB_PARTITIONS if per_warp else chip.warps
    allocated = _up(shared_bytes + chip.reserved_bytes, chip.shared_unit)
    limits = {
        "registers": warps_by_registers // num_warps if fits else 0,
        "shared memory": chip.shared_bytes // allocated if allocated else chip.blocks,
        "warps": chip.warps // num_warps,
        "blocks": chip.blocks,
    }
    if tensor_memory_columns:
        limits["tensor memory"] = TENSOR_MEMORY_COLUMNS // tensor_memory_columns
    if num_warps * WARP_SIZE > MOST_THREADS_PER_BLOCK:
        limits["warps"] = 0
    blocks = min(limits.values())
    return Occupancy(blocks, blocks * num_warps, blocks * num_warps / chip.warps, limits)


@dataclass(frozen=True)
class Waves:
    """How a grid fills a GPU: in `count` rounds of `capacity` blocks, of which the last leaves `last_idle` empty.

    A grid that doesn't fill the GPU once has a count below 1; its `last_idle` is the share of multiprocessors without
    a block.
    """

    count: float
    capacity: int
    last_idle: float

    @property
    def lost(self) -> float:
        """The share of the whole run that the last wave's idle part takes, if all blocks take as long."""
        return self.last_idle / ceil(self.count) if self.count > 0 else 0.0


def waves(blocks: int, blocks_per_multiprocessor: int, multiprocessors: int) -> Waves:
    """How `blocks` blocks of a grid fill so many multiprocessors. Raises ValueError where nothing fits."""
    if blocks_per_multiprocessor < 1 or multiprocessors < 1:
        raise ValueError("no block fits a multiprocessor")
    capacity = blocks_per_multiprocessor * multiprocessors
    if blocks <= capacity:  # blocks go to empty multiprocessors first
        return Waves(blocks / capacity, capacity, max(0.0, 1 - blocks / multiprocessors))
    last = blocks % capacity or capacity
    return Waves(blocks / capacity, capacity, 1 - last / capacity)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit

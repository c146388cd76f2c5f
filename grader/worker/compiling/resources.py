"""What a compiled kernel needs of a GPU, and whether the GPU has it.

Untrusted side. Reads Triton's metadata, ptxas's report and `cuobjdump`; never a device.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import triton
from triton.runtime import _allocation
from triton.runtime.cache import get_cache_manager
from triton.runtime.errors import OutOfResources

# Shared memory one block may opt in to (CUDA C++ Programming Guide, technical specifications per compute capability):
# what a driver reports as CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, which Triton compares with.
_SHARED_LIMIT_BYTES = {
    70: 98304,
    75: 65536,
    80: 166912,
    86: 101376,
    87: 166912,
    89: 101376,
    90: 232448,
    100: 232448,
    103: 232448,
    110: 232448,
    120: 101376,
}
_MULTIPROCESSORS = {70: 80, 75: 40, 80: 108, 86: 84, 89: 128, 90: 132, 100: 148, 103: 148, 120: 170}
_MAX_THREADS = 1024
_MAX_TENSOR_MEMORY_COLUMNS = 512  # as in Triton's own launch
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_WARP_SIZE = 32

_USAGE_FILE = "usage.json"
_PTXAS_REGISTERS = re.compile(r"Used (\d+) registers")
_PTXAS_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores")
_CUOBJDUMP = re.compile(r"REG:(\d+) STACK:(\d+)")


@dataclass(frozen=True)
class Usage:
    """Registers and stack of one thread; None where no tool told."""

    registers: int | None = None
    spills: int | None = None
    stack_bytes: int | None = None


def shared_limit_bytes(target: int) -> int:
    """Shared memory a block may use on `target`; an unknown chip is taken to be like the nearest older one."""
    return _nearest(_SHARED_LIMIT_BYTES, target)


def device_properties(target: int) -> dict[str, int]:
    """What `driver.active.utils.get_device_properties` would say of a common GPU of this capability."""
    return {
        "max_shared_mem": shared_limit_bytes(target),
        "max_num_regs": 65536,
        "multiprocessor_count": _nearest(_MULTIPROCESSORS, target),
        "warpSize": _WARP_SIZE,
        "sm_clock_rate": 1_500_000,
        "mem_clock_rate": 2_000_000,
        "mem_bus_width": 5120,
    }


def _nearest(table: dict[int, int], target: int) -> int:
    return table[max((known for known in table if known <= target), default=min(table))]


def out_of_resources(metadata: Any, target: int) -> str:
    """The error that loading the kernel would raise for want of resources, or ""; the autotuner skips such a config."""
    limit = shared_limit_bytes(target)
    if metadata.shared > limit:
        return str(OutOfResources(metadata.shared, limit, "shared memory"))
    columns = getattr(metadata, "tmem_size", None) or 0
    if columns > _MAX_TENSOR_MEMORY_COLUMNS:
        return str(OutOfResources(columns, _MAX_TENSOR_MEMORY_COLUMNS, "tensor memory"))
    threads = metadata.num_warps * _WARP_SIZE
    if threads > _MAX_THREADS:
        return f"num_warps={metadata.num_warps} makes {threads} threads, a block has at most {_MAX_THREADS}"
    return ""


def launch_error(metadata: Any, grid: list[int]) -> str:
    """The error that launching the loaded kernel would raise, or "".

    Triton's launcher passes over a grid whose product is not positive, without a word.
    """
    scratch_bytes = getattr(metadata, "global_scratch_size", None) or 0
    if scratch_bytes and isinstance(_allocation._allocator.get(), _allocation.NullAllocator):
        return (
            "the kernel needs global scratch memory (it makes tensor descriptors on the device) and no allocator "
            "was set: call triton.set_allocator before the launch"
        )
    if math.prod(grid) <= 0:
        return ""
    for axis, size, limit in zip("xyz", grid, _GRID_LIMITS, strict=True):
        if size > limit:
            return f"grid {axis} is {size}, the most a GPU takes is {limit}"
        if size < 0:
            return f"grid {axis} is {size}, which is negative"
    return ""


def usage(kernel: Any, ptxas_log: str) -> Usage:
    """Registers and stack of a Triton `CompiledKernel`, from the log of the ptxas run that has just made it.

    A kernel that came from Triton's cache has no log: what was read the first time lies beside it in that cache.
    """
    cache = get_cache_manager(kernel.hash)
    stored = cache.get_file(_USAGE_FILE)
    if stored is not None:
        return Usage(**json.loads(Path(stored).read_text()))
    found = _from_ptxas(ptxas_log) or _from_cuobjdump(kernel.asm["cubin"])
    cache.put(json.dumps(asdict(found)), _USAGE_FILE, binary=False)
    return found


def _from_ptxas(log: str) -> Usage | None:
    registers = _PTXAS_REGISTERS.findall(log)
    stack = _PTXAS_STACK.findall(log)
    if not registers or not stack:
        return None
    stack_bytes, spilled_bytes = (max(int(each[column]) for each in stack) for column in (0, 1))
    return Usage(max(map(int, registers)), spilled_bytes // 4, stack_bytes)


def _from_cuobjdump(cubin: bytes) -> Usage:
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    if not tool.exists():
        return Usage()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        told = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=False)  # noqa: S603 - Triton's own tool, our file
    lines = [(int(registers), int(stack)) for registers, stack in _CUOBJDUMP.findall(told.stdout)]
    if not lines:
        return Usage()
    registers, stack_bytes = max(lines)
    # Spills live on the stack, so an empty one proves that there are none; a used one doesn't say what it holds.
    return Usage(registers, 0 if stack_bytes == 0 else None, stack_bytes)

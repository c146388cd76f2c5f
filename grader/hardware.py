"""What GPUs are and can do at most: architecture, multiprocessors, memory bandwidth and arithmetic rates, from the
vendors' data sheets. Pure.

A time below what these allow is not a fast kernel but a wrong measurement or a cheat, so the numbers are the data
sheets' peaks, not what can be reached. For a GPU that is not listed, the measured rates stand in, with a margin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from reference.exercise import Cost

from .errors import SelectionError


@dataclass(frozen=True)
class Gpu:
    """One GPU: bandwidth in GB/s (10⁹ bytes), dense tensor-core rates in TFLOP/s by dtype, compute capability (90 for
    sm_90) and streaming multiprocessors. The last two are 0 where they aren't known.
    """

    bandwidth_gb_s: float
    tflop_s: Mapping[str, float]
    target: int = 0
    multiprocessors: int = 0


# NVIDIA data sheets: dense rates (without sparsity); float32 by TF32 tensor cores where there are any.
GPUS: Mapping[str, Gpu] = {
    "B200": Gpu(8000, {"float32": 1100, "float16": 2250, "bfloat16": 2250}, 100, 148),
    "H200": Gpu(4800, {"float32": 495, "float16": 990, "bfloat16": 990}, 90, 132),
    "H100 PCIe": Gpu(2000, {"float32": 378, "float16": 756, "bfloat16": 756}, 90, 114),
    "H100": Gpu(3350, {"float32": 495, "float16": 990, "bfloat16": 990}, 90, 132),
    "A100-SXM4-80GB": Gpu(2039, {"float32": 156, "float16": 312, "bfloat16": 312}, 80, 108),
    "A100": Gpu(1935, {"float32": 156, "float16": 312, "bfloat16": 312}, 80, 108),
    "A10": Gpu(600, {"float32": 62.5, "float16": 125, "bfloat16": 125}, 86, 72),
    "L40S": Gpu(864, {"float32": 183, "float16": 362, "bfloat16": 362}, 89, 142),
    "L4": Gpu(300, {"float32": 60, "float16": 121, "bfloat16": 121}, 89, 58),
    "T4": Gpu(320, {"float32": 8.1, "float16": 65, "bfloat16": 65}, 75, 40),
    "RTX 5090": Gpu(1792, {"float32": 104.8, "float16": 419, "bfloat16": 419}, 120, 170),
    "RTX 4090": Gpu(1008, {"float32": 82.6, "float16": 330, "bfloat16": 330}, 89, 128),
    "RTX 3090": Gpu(936, {"float32": 71, "float16": 142, "bfloat16": 142}, 86, 82),
}
# Measured rates stand this far below what a kernel could reach at best.
MARGIN_OF_MEASURED = 1.25


def lookup(name: str) -> Gpu | None:
    """The GPU whose entry is the longest part of the device's name, as the driver gives it, or None."""
    found = [entry for entry in GPUS if set(entry.replace("-", " ").split()) <= set(name.replace("-", " ").split())]
    return GPUS[max(found, key=len)] if found else None


def named(name: str) -> str:
    """The entry that someone means by a name such as `a100` or `rtx4090`. Raises SelectionError."""
    found = [entry for entry in GPUS if _plain(entry) == _plain(name)]
    if not found:
        raise SelectionError(f"--gpu {name}: this GPU is not known; known are {', '.join(GPUS)}")
    return found[0]


def _plain(name: str) -> str:
    return name.lower().replace(" ", "").replace("-", "").removeprefix("nvidia")


def limits(name: str, measured_gb_s: float, measured_tflop_s: float) -> Gpu:
    """The data sheet's peaks, or the measured rates with a margin."""
    known = lookup(name)
    if known is not None:
        return known
    rate = measured_tflop_s * MARGIN_OF_MEASURED
    return Gpu(measured_gb_s * MARGIN_OF_MEASURED, {"float32": rate, "float16": rate, "bfloat16": rate})


def least_time_us(cost: Cost, dtype: str, gpu: Gpu) -> float:
    """The time that moving the bytes and doing the arithmetic takes at least, in µs: the larger of the two."""
    return max(_memory_us(cost, gpu), _arithmetic_us(cost, dtype, gpu))


def bound_by(cost: Cost, dtype: str, gpu: Gpu) -> Literal["memory", "arithmetic"]:
    """Which of the two takes longer."""
    return "memory" if _memory_us(cost, gpu) >= _arithmetic_us(cost, dtype, gpu) else "arithmetic"


def _memory_us(cost: Cost, gpu: Gpu) -> float:
    return cost.bytes_moved / gpu.bandwidth_gb_s / 1e3


def _arithmetic_us(cost: Cost, dtype: str, gpu: Gpu) -> float:
    return cost.flops / gpu.tflop_s[dtype] / 1e6

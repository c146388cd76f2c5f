"""What GPUs can do at most: memory bandwidth and arithmetic rates, from the vendors' data sheets. Pure.

A time below what these allow is not a fast kernel but a wrong measurement or a cheat, so the numbers are the data
sheets' peaks, not what can be reached. For a GPU that is not listed, the measured rates stand in, with a margin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from reference.exercise import Cost


@dataclass(frozen=True)
class Gpu:
    """Peaks of one GPU: bandwidth in GB/s (10⁹ bytes), dense tensor-core rates in TFLOP/s by dtype."""

    bandwidth_gb_s: float
    tflop_s: Mapping[str, float]


# NVIDIA data sheets: dense rates (without sparsity); float32 by TF32 tensor cores where there are any.
GPUS: Mapping[str, Gpu] = {
    "B200": Gpu(8000, {"float32": 1100, "float16": 2250, "bfloat16": 2250}),
    "H200": Gpu(4800, {"float32": 495, "float16": 990, "bfloat16": 990}),
    "H100 PCIe": Gpu(2000, {"float32": 378, "float16": 756, "bfloat16": 756}),
    "H100": Gpu(3350, {"float32": 495, "float16": 990, "bfloat16": 990}),
    "A100-SXM4-80GB": Gpu(2039, {"float32": 156, "float16": 312, "bfloat16": 312}),
    "A100": Gpu(1935, {"float32": 156, "float16": 312, "bfloat16": 312}),
    "L40S": Gpu(864, {"float32": 183, "float16": 362, "bfloat16": 362}),
    "L4": Gpu(300, {"float32": 60, "float16": 121, "bfloat16": 121}),
    "T4": Gpu(320, {"float32": 8.1, "float16": 65, "bfloat16": 65}),
    "RTX 4090": Gpu(1008, {"float32": 82.6, "float16": 330, "bfloat16": 330}),
    "RTX 3090": Gpu(936, {"float32": 71, "float16": 142, "bfloat16": 142}),
}
# Measured rates stand this far below what a kernel could reach at best.
MARGIN_OF_MEASURED = 1.25


def lookup(name: str) -> Gpu | None:
    """The GPU whose entry is the longest part of the device's name, as the driver gives it, or None."""
    found = [entry for entry in GPUS if set(entry.replace("-", " ").split()) <= set(name.replace("-", " ").split())]
    return GPUS[max(found, key=len)] if found else None


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

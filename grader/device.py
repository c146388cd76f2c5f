"""Trusted side: the GPU that is graded on: which one it is, what it reaches, and its state.

Imported only where a GPU is used. NVML (extra `gpu`) adds clocks, temperature and other processes; without it they are
not recorded.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from .errors import InfrastructureError
from .hardware import Gpu, limits

try:
    import pynvml
except ImportError:
    pynvml = None

IDLE_BYTES = 256 << 20
IDLE_COPIES = 60
IDLE_FACTOR = 1.25
# NVML's reasons "hardware slowdown", "software thermal", "hardware thermal", "power brake". The power cap is none:
# large products always run at it, the baseline's as well.
THROTTLED = 0x08 | 0x20 | 0x40 | 0x80
PROBE_BYTES = 1 << 30
PROBE_SIZE = 4096


def current_uuid() -> str:
    """The UUID of the GPU that CUDA gives this process."""
    return str(torch.cuda.get_device_properties(0).uuid)


@dataclass(frozen=True)
class Device:
    """One GPU. Rates in GB/s (bytes read and written, of a large copy) and TFLOP/s (a large bfloat16 product)."""

    name: str
    uuid: str
    driver: str
    copy_gb_s: float
    matmul_tflop_s: float
    limits: Gpu

    @classmethod
    def current(cls) -> Device:
        """The device that CUDA gives this process, with its rates measured. Raises InfrastructureError."""
        if not torch.cuda.is_available():
            raise InfrastructureError("CUDA is not available here; grade with --device cpu")
        properties = torch.cuda.get_device_properties(0)
        copy_gb_s, matmul_tflop_s = _copy_rate(), _matmul_rate()
        known = limits(properties.name, copy_gb_s, matmul_tflop_s)
        return cls(properties.name, str(properties.uuid), driver_version(), copy_gb_s, matmul_tflop_s, known)

    def is_idle(self) -> bool:
        """Whether copies over a few milliseconds take what they take on an idle device.

        Processes take turns on a GPU in slices of about two milliseconds, so a single short copy would prove nothing.
        """
        expected_ms = IDLE_COPIES * 2 * IDLE_BYTES / (self.copy_gb_s * 1e6)

        def copies() -> None:
            for _ in range(IDLE_COPIES):
                self._idle_target.copy_(self._idle_source)

        return _best_ms(copies, 1) <= IDLE_FACTOR * expected_ms

    @cached_property
    def _idle_source(self) -> torch.Tensor:
        return torch.zeros(IDLE_BYTES, dtype=torch.uint8, device="cuda")

    @cached_property
    def _idle_target(self) -> torch.Tensor:
        return torch.zeros(IDLE_BYTES, dtype=torch.uint8, device="cuda")

    def is_throttled(self) -> bool:
        """Whether the device lowers its clocks because of heat or its power supply; False where NVML is missing."""
        if pynvml is None:
            return False
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(_handle(self.uuid))
            return bool(reasons & THROTTLED)
        return False

    def state(self) -> dict[str, Any]:
        """Clocks in MHz, temperature in °C, power in W, throttle reasons and other processes, as NVML gives them."""
        if pynvml is None:
            return {}
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            handle = _handle(self.uuid)
            return {
                "sm_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
                "memory_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
                "temperature_c": pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
                "power_w": pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
                "throttle_reasons": pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
                "processes": len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle)),
            }
        return {}


def _handle(uuid: str) -> Any:
    full = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
    return pynvml.nvmlDeviceGetHandleByUUID(full)


def driver_version() -> str:
    """The driver's version by NVML, "" where it can't be told."""
    if pynvml is not None:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            return str(pynvml.nvmlSystemGetDriverVersion())
    return os.environ.get("NVIDIA_DRIVER_VERSION", "")


def _best_ms(work: Any, times: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    best = float("inf")
    for _ in range(times):
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        best = min(best, float(start.elapsed_time(end)))
    return best


def _copy_rate() -> float:
    free, _ = torch.cuda.mem_get_info()
    size = min(PROBE_BYTES, free // 8)
    source = torch.empty(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * size / _best_ms(lambda: target.copy_(source), 8) / 1e6


def _matmul_rate() -> float:
    a, b = (torch.randn(PROBE_SIZE, PROBE_SIZE, device="cuda").to(torch.bfloat16) for _ in range(2))
    return 2 * PROBE_SIZE**3 / _best_ms(lambda: a @ b, 8) / 1e9

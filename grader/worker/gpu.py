"""Untrusted side: calls on CUDA tensors. Nothing here touches CUDA before `attach`: a fork after that would be dead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from grader.device_memory import DeviceMemory

DEVICE = "cuda"
KEPT_LAUNCHES = 4096


@dataclass
class Launch:
    """One kernel launch. The grid is not known where it is a function of the configuration."""

    kernel: str
    grid: list[int]
    config: str | None
    num_configs: int


@dataclass
class Record:
    """What one call did, in the form of the interpreter's record; what only that one can count stays empty."""

    launches: list[Launch] = field(default_factory=list)
    launch_count: int = 0
    bytes_loaded: int = 0
    bytes_stored: int = 0
    faults: list[Any] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unsupported: str | None = None


class _Current:
    """The call in progress. Without a record nothing is counted; without an index, kernels tune themselves."""

    record: Record | None = None
    config_index: int | None = None
    config: str | None = None
    num_configs = 1


_attached: list[DeviceMemory] = []  # mappings live as long as the worker


def prepare() -> None:
    """Count launches, and have autotuned kernels run one configuration that the judge chose, in each recorded call."""
    # Imported before any fork: a submission may change files, but not what the zygote has read.
    from grader.worker import operators, timed  # noqa: F401

    run_kernel, tune = JITFunction.run, Autotuner.run

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        record = _Current.record
        if record is not None and not kwargs.get("warmup"):
            record.launch_count += 1
            if len(record.launches) < KEPT_LAUNCHES:
                grid = kwargs.get("grid")
                sizes = [int(size) for size in grid] if isinstance(grid, tuple | list) else []
                record.launches.append(Launch(self.fn.__name__, sizes, _Current.config, _Current.num_configs))
        return run_kernel(self, *args, **kwargs)

    def chosen(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _Current.config_index is None:
            return tune(self, *args, **kwargs)
        # Real tuning would time every configuration for every new size, minutes of it in a check of odd sizes.
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            configs = list(self.prune_configs(kwargs)) if len(self.configs) > 1 else list(self.configs)
            config = configs[_Current.config_index % len(configs)]
            full = {**self.nargs, **kwargs, **config.all_kwargs()}
            # `reset_to_zero` is for the tuning, which real Triton does once for a key: no call may rely on it.
            if config.pre_hook is not None:
                config.pre_hook(full)
            _Current.config, _Current.num_configs = str(config), len(configs)
            return self.fn.run(*args, **kwargs, **config.all_kwargs())
        finally:
            self.nargs = None
            _Current.config, _Current.num_configs = None, 1

    JITFunction.run = counted
    Autotuner.run = chosen


def attach(fd: int, size: int) -> torch.Tensor:
    """The device memory behind a descriptor as a uint8 tensor. Makes the CUDA context of this process."""
    torch.zeros(1, device="cuda")
    memory = DeviceMemory.attach(fd, size, torch.cuda.current_device())
    os.close(fd)
    _attached.append(memory)
    return memory.tensor()  # type: ignore[no-any-return]


@contextmanager
def record(options: dict[str, Any]) -> Iterator[Record]:
    """Record one call: its launches, with autotuned kernels held to the configuration of this index, if any."""
    _Current.record, _Current.config_index = Record(), options["config_index"]
    try:
        yield _Current.record
    finally:
        _Current.record = _Current.config_index = None


def stored_elements(_: torch.Tensor) -> int | None:
    """Not known: nothing sees the stores of a compiled kernel."""
    return None


def synchronize() -> None:
    """Wait for everything that the call started on the device, on whatever stream."""
    torch.cuda.synchronize()

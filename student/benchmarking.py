"""Exercise: how long does a call take on the device, and which kernels does it spend that time in?

`run` launches work and usually returns before it is over. Without a GPU the grader simulates the device: streams,
events, torch.cuda.synchronize, clocks, NVTX and torch.profiler work as on a GPU, but there are no tensors on it.
Both torch.cuda.nvtx and the package nvtx will do. What triton.testing.do_bench does is for you to write.
"""

import time
from collections.abc import Callable

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity


def benchmark(run: Callable[[], object], num_warmups: int = 1, num_trials: int = 3) -> float:
    """Return the mean time of a call of `run` in milliseconds, over exactly num_trials calls.

    Before them, call `run` exactly num_warmups times; these don't count. A trial lasts from the beginning of the call,
    on an idle device, to the end of all the work that it launched, on whatever stream. What `run` raises is raised.
    NVTX ranges: one that is named "warmup…" holds all warm-ups, one that is named "trial…" each trial.
    """
    # TODO: warm up, time each trial, and return the mean.
    raise NotImplementedError("benchmark is not written yet: student/benchmarking.py")


def profile(run: Callable[[], object], num_warmups: int = 1) -> list[tuple[str, int, float]]:
    """Return the kernels of one call of `run`, after exactly num_warmups others: (kernel, calls, microseconds).

    One row a kernel, the one with the most time first; calls: how often it was launched; microseconds: the sum over its
    launches. Rows are for what ran on the device only, not for operators or calls of the CUDA runtime.
    NVTX ranges: one that is named "warmup…" holds all warm-ups, one that is named "profile…" the call.
    """
    # TODO: warm up, run torch.profiler.profile around one call, and return the rows of its key_averages().
    raise NotImplementedError("profile is not written yet: student/benchmarking.py")

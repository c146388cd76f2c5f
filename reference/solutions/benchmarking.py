# solution: begin
"""How long a call takes on the device, and which kernels it spends that time in.

The host's clock runs from an idle device to an idle device: torch.cuda.synchronize() waits for every stream, so nothing
that `run` launched is still going on when the clock is read, and nothing of the call before is when it starts. Events
recorded before and after `run` would be finer by the microseconds that a launch takes, but see the current stream only.
"""

#: """Exercise: how long does a call take on the device, and which kernels does it spend that time in?
#:
#: `run` launches work and usually returns before it is over. Without a GPU the grader simulates the device: streams,
#: events, torch.cuda.synchronize, clocks, NVTX and torch.profiler work as on a GPU, but there are no tensors on it.
#: Both torch.cuda.nvtx and the package nvtx will do. What triton.testing.do_bench does is for you to write.
#: """
# solution: end

import time
from collections.abc import Callable

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity


# solution: begin
def warm_up(run: Callable[[], object], num_warmups: int) -> None:
    """Call `run` that often and leave the device idle."""
    with torch.cuda.nvtx.range("warmup"):
        for _ in range(num_warmups):
            run()
        torch.cuda.synchronize()


# solution: end


def benchmark(run: Callable[[], object], num_warmups: int = 1, num_trials: int = 3) -> float:
    """Return the mean time of a call of `run` in milliseconds, over exactly num_trials calls.

    Before them, call `run` exactly num_warmups times; these don't count. A trial lasts from the beginning of the call,
    on an idle device, to the end of all the work that it launched, on whatever stream. What `run` raises is raised.
    NVTX ranges: one that is named "warmup…" holds all warm-ups, one that is named "trial…" each trial.
    """
    # solution: begin
    #: # TODO: warm up, time each trial, and return the mean.
    warm_up(run, num_warmups)
    total_s = 0.0
    for trial in range(num_trials):
        with torch.cuda.nvtx.range(f"trial {trial}"):
            start_s = time.perf_counter()
            run()
            torch.cuda.synchronize()
            total_s += time.perf_counter() - start_s
    return 1e3 * total_s / num_trials
    # solution: end


def profile(run: Callable[[], object], num_warmups: int = 1) -> list[tuple[str, int, float]]:
    """Return the kernels of one call of `run`, after exactly num_warmups others: (kernel, calls, microseconds).

    One row a kernel, the one with the most time first; calls: how often it was launched; microseconds: the sum over its
    launches. Rows are for what ran on the device only, not for operators or calls of the CUDA runtime.
    NVTX ranges: one that is named "warmup…" holds all warm-ups, one that is named "profile…" the call.
    """
    # solution: begin
    #: # TODO: warm up, run torch.profiler.profile around one call, and return the rows of its key_averages().
    warm_up(run, num_warmups)
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as profiler, torch.cuda.nvtx.range("profile"):
        run()
        torch.cuda.synchronize()
    rows = [(event.key, event.count, event.self_device_time_total) for event in profiler.key_averages()
            if event.device_type == DeviceType.CUDA and not event.is_user_annotation]  # fmt: skip
    return sorted(rows, key=lambda row: row[2], reverse=True)
    # solution: end

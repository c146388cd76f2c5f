import statistics
from time import perf_counter_ns

import nvtx
import torch
from torch.profiler import ProfilerActivity
from torch.profiler import profile as torch_profile


def benchmark(run, num_warmups=1, num_trials=3):
    nvtx.push_range("Warmup", domain="harness")
    try:
        for _ in range(num_warmups):
            run()
        torch.cuda.synchronize()
    finally:
        nvtx.pop_range(domain="harness")
    times_ms = []
    for trial in range(num_trials):
        nvtx.push_range(message=f"Trial {trial}", color="blue")
        try:
            start = perf_counter_ns()
            run()
            torch.cuda.synchronize()
            times_ms.append((perf_counter_ns() - start) / 1e6)
        finally:
            nvtx.pop_range()
    return statistics.mean(times_ms)


@nvtx.annotate("warmups")
def warm_up(run, num_warmups):
    for _ in range(num_warmups):
        run()
    torch.cuda.synchronize()


def profile(run, num_warmups=1):
    warm_up(run, num_warmups)
    with torch_profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        with nvtx.annotate("profile", color="green"):
            run()
    totals = {}
    for event in prof.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            calls, time_us = totals.get(event.name, (0, 0.0))
            totals[event.name] = calls + 1, time_us + event.time_range.elapsed_us()
    return sorted(([name, *facts] for name, facts in totals.items()), key=lambda row: row[2], reverse=True)

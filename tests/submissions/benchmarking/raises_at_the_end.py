import time

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity


def benchmark(run, num_warmups=1, num_trials=3):
    errors = []
    with torch.cuda.nvtx.range("warmup"):
        for _ in range(num_warmups):
            try:
                run()
            except Exception as error:
                errors.append(error)
    torch.cuda.synchronize()
    times = []
    for trial in range(num_trials):
        with torch.cuda.nvtx.range("trial"):
            start = time.perf_counter()
            run()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
    if errors:
        raise errors[0]
    return 1000 * sum(times) / len(times)


def profile(run, num_warmups=1):
    with torch.cuda.nvtx.range("warmup"):
        for _ in range(num_warmups):
            run()
        torch.cuda.synchronize()
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as prof:
        with torch.cuda.nvtx.range("profile"):
            run()
            torch.cuda.synchronize()
    rows = [(e.key, e.count, e.device_time_total) for e in prof.key_averages() if e.device_type == DeviceType.CUDA]
    return sorted(rows, key=lambda row: -row[2])

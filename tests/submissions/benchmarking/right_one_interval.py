from time import perf_counter as timer

import numpy as np
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity


def benchmark(run, num_warmups=1, num_trials=3):
    """One clock interval around all trials: the same mean."""
    torch.cuda.nvtx.range_push("warmup")
    for _ in range(num_warmups):
        run()
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
    start = timer()
    for _ in range(num_trials):
        torch.cuda.nvtx.range_push("trial")
        run()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
    return np.float64(1e3 * (timer() - start) / num_trials)


def profile(run, num_warmups=1):
    prof = torch.profiler.profile(
        activities=[ProfilerActivity.CUDA],
        schedule=torch.profiler.schedule(wait=0, warmup=num_warmups, active=1, repeat=1),
    )
    prof.start()
    for step in range(num_warmups + 1):
        number = torch.cuda.nvtx.range_start("profile" if step == num_warmups else "warmup")
        run()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_end(number)
        prof.step()
    prof.stop()
    rows = [(e.key, e.count, e.self_device_time_total) for e in prof.key_averages()
            if e.device_type == DeviceType.CUDA and not e.is_user_annotation]
    return tuple(sorted(rows, key=lambda row: row[2], reverse=True))

from time import perf_counter

import nvtx
import torch
from torch.autograd import DeviceType
from torch.cuda import Event, current_stream, synchronize
from torch.profiler import ProfilerActivity, profile as trace

start, end = Event(enable_timing=True), Event(enable_timing=True)
stream = torch.cuda.Stream()
imported = perf_counter()


@nvtx.annotate()
def warmup(run, times):
    for _ in range(times):
        run()
    synchronize()


def benchmark(run, num_warmups=1, num_trials=3):
    total = 0.0
    with torch.cuda.stream(stream):
        warmup(run, num_warmups)
        for trial in range(num_trials):
            with nvtx.annotate(message=f"trial-{trial}", domain="mine", color="red"):
                start.record()
                run()
                synchronize()
                end.record(current_stream())
            end.synchronize()
            total += start.elapsed_time(end)
    return total / num_trials


def profile(run, num_warmups=1):
    warmup(run, num_warmups)
    with trace(activities=[ProfilerActivity.CUDA]) as prof, nvtx.annotate("profile"):
        run()
    table = prof.key_averages()
    assert table.table(sort_by="cuda_time_total", row_limit=10)
    rows = [(row.key, row.count, row.self_device_time_total) for row in table if row.device_type is DeviceType.CUDA]
    rows.sort(key=lambda row: row[2], reverse=True)
    return rows

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity


def benchmark(run, num_warmups=1, num_trials=3):
    """Everything on a stream of its own, polled until its last event has happened and the other streams are done."""
    total_ms = 0.0
    with torch.cuda.stream(torch.cuda.Stream()):
        with torch.cuda.nvtx.range("warmup"):
            for _ in range(num_warmups):
                run()
        torch.cuda.synchronize()
        for _ in range(num_trials):
            with torch.cuda.nvtx.range("trial"):
                start = torch.cuda.current_stream().record_event(torch.cuda.Event(enable_timing=True))
                run()
                torch.accelerator.synchronize()
                end = torch.cuda.Event(enable_timing=True)
                end.record()
                while not end.query():
                    pass
            total_ms += start.elapsed_time(end)
    return total_ms / num_trials


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

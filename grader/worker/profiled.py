"""Untrusted side: runs a submission on a GPU for a profiler, in a plain process of its own.

    python -m grader.worker.profiled REQUEST

A profiler loses processes that are forked, and nothing is awarded here, so the submission runs in this process.
REQUEST is JSON: {"mode", "file", "entry", "label", "cases", "out"}. `cases` lists the arguments of a call; `mode` is
    range: warm up, then one call inside the NVTX range `label` of the domain `grader`, as it is graded
    torch: the same under torch.profiler, with its trace in OUT/trace.json, and the call's time in OUT/times.json
    sweep: the time of each case, in OUT/times.json, null where the GPU's memory did not suffice
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from grader.worker.entry import find_entry, import_file
from grader.worker.timed import Round

WARM_UP_CALLS = 5
LEAST_CALLS = 5
MOST_CALLS = 200
MEASURE_MS = 60.0  # of device time for each case
FLUSHED_BYTES = 256 << 20  # more than any L2 cache holds

Call = Callable[[], Any]


def run(request: dict[str, Any]) -> None:
    """Do what a request asks for. Raises what the submission raises."""
    path = Path(request["file"])
    sys.path.append(str(path.parent))
    entry = find_entry(import_file(path), request["entry"])
    if request["mode"] == "sweep":
        _write(request, [_time_of(entry, arguments) for arguments in request["cases"]])
        return
    arguments = _inputs(request["cases"][0])
    graded = Round(entry, [arguments], [arguments] * WARM_UP_CALLS, request["label"])
    if request["mode"] == "range":
        graded.run()
        return
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        graded.run()
    profile.export_chrome_trace(str(Path(request["out"]) / "trace.json"))
    _write(request, [_time_us(lambda: entry(*arguments))])


def _write(request: dict[str, Any], times_us: list[float | None]) -> None:
    (Path(request["out"]) / "times.json").write_text(json.dumps(times_us))


def _inputs(arguments: list[dict[str, Any]]) -> list[Any]:
    return [_random(each["tensor"]) if "tensor" in each else each["value"] for each in arguments]


def _random(tensor: dict[str, Any]) -> torch.Tensor:
    return torch.randn(tensor["shape"], device="cuda").to(getattr(torch, tensor["dtype"]))


def _time_of(entry: Callable[..., Any], arguments: list[dict[str, Any]]) -> float | None:
    try:
        values = _inputs(arguments)
        return _time_us(lambda: entry(*values))
    except torch.OutOfMemoryError:
        return None
    finally:
        torch.cuda.empty_cache()


def _time_us(call: Call) -> float:
    """The median time of a call by CUDA events, each after the cache was overwritten."""
    for _ in range(WARM_UP_CALLS):
        call()
    flushed = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device="cuda")
    times_ms: list[float] = []
    while len(times_ms) < LEAST_CALLS or (sum(times_ms) < MEASURE_MS and len(times_ms) < MOST_CALLS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        flushed.zero_()
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times_ms.append(float(start.elapsed_time(end)))
    return 1e3 * statistics.median(times_ms)


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))

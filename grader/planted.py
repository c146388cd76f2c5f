"""The kernels of planted workloads on a GPU: each keeps one thread busy for a given time. Both sides import this.

They look at the device's global timer, so that their times don't depend on its clock rate.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
import triton
from triton.language.extra.cuda import globaltimer


# Triton's compiler would look up annotations among the globals that a kernel uses, so the kernels have none.
@triton.jit
def _spin(time_ns):  # type: ignore[no-untyped-def]
    begin = globaltimer()
    now = begin
    while now - begin < time_ns:
        now = globaltimer()


@triton.jit
def planted_scores(time_ns):  # type: ignore[no-untyped-def] # noqa: D103
    _spin(time_ns)


@triton.jit
def planted_softmax(time_ns):  # type: ignore[no-untyped-def] # noqa: D103
    _spin(time_ns)


@triton.jit
def planted_product(time_ns):  # type: ignore[no-untyped-def] # noqa: D103
    _spin(time_ns)


@triton.jit
def planted_tuning(time_ns):  # type: ignore[no-untyped-def] # noqa: D103
    _spin(time_ns)


_KERNELS = {kernel.fn.__name__: kernel for kernel in (planted_scores, planted_softmax, planted_product, planted_tuning)}


def launch(name: str, time_us: float) -> None:
    """Keep the current stream busy for so long."""
    # One signature for all times: Triton compiles 1, and multiples of 16, anew.
    _KERNELS[name][(1,)](round(time_us * 1e3) // 16 * 16, num_warps=1)


def warm_up() -> None:
    """Compile every kernel, and make the side streams: the first one takes as long as a kernel."""
    run([(name, 1.0) for name in _KERNELS], 0.0, "joined", waits=True)
    torch.cuda.synchronize()


def run(kernels: Sequence[tuple[str, float]], host_us: float, where: str, *, waits: bool) -> None:
    """Do what reference/harness.py says of a call."""
    begin = time.perf_counter()
    while (time.perf_counter() - begin) * 1e6 < host_us:
        pass
    current = torch.cuda.current_stream()
    stream = current if where == "current" else torch.cuda.Stream()  # type: ignore[no-untyped-call]
    if where != "current":
        stream.wait_stream(current)
    with torch.cuda.stream(stream):
        for name, time_us in kernels:
            launch(name, time_us)
    if where == "joined":
        current.wait_stream(stream)
    if waits:
        stream.synchronize()

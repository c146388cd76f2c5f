"""Times the staff solutions against what students and staff would compare them with, on one CUDA GPU.

    python benchmarks/solutions.py [--only gelu softmax …] [--rounds 3] [--compile-attention] [--json FILE]

Columns, in microseconds: the formula in eager PyTorch, PyTorch's own operator, torch.compile of the formula, Liger
Kernel where it is installed, ours, and the limit: bytes moved at least over the bandwidth of a large copy, or FLOPs
over the rate of a large bf16 matrix product, both measured in the same run. Every time is the median over rounds in
which the columns take turns. Before each call a buffer larger than L2 is overwritten and the GPU is kept waiting, so
that the call is queued before it starts: the times are those of the kernels, without the cost of launching them.
"""

import argparse
import datetime
import json
import math
import re
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
import triton

from reference.solutions.flash_attention import flash_attention
from reference.solutions.gelu import gelu
from reference.solutions.matmul_relu import matmul_relu
from reference.solutions.rmsnorm import rmsnorm
from reference.solutions.row_sum import row_sum
from reference.solutions.softmax import softmax

try:
    from liger_kernel.ops import rms_norm as liger_rms_norm
    from liger_kernel.ops import softmax as liger_softmax
except ImportError:
    liger_rms_norm = liger_softmax = None

COLUMNS = ("eager", "builtin", "compile", "liger", "ours")


@dataclass(frozen=True)
class Row:
    """One line of the table: `columns` maps a column to a function of `inputs`, and `limit_us` bounds them all."""

    name: str
    inputs: tuple
    columns: dict[str, Callable]
    bytes_moved: int = 0
    flops: int = 0
    backward: bool = False
    skip: tuple[str, ...] = field(default=())


def gelu_formula(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def softmax_formula(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def rmsnorm_formula(x, w):
    wide = x.float()
    return (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * w


def attention_formula(q, k, v):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    mask = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril()
    return torch.softmax(s.masked_fill(~mask, float("-inf")), -1) @ v


def random(*shape, dtype=torch.bfloat16, grad=False):
    return torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=grad)


def elementwise_rows():
    x = random(2**26)
    columns = {"eager": gelu_formula, "builtin": partial(F.gelu, approximate="tanh"), "ours": gelu}
    yield Row("gelu 67M bfloat16", (x,), columns, bytes_moved=2 * x.nbytes)


def softmax_rows():
    for shape in ((8192, 4096), (4096, 32768)):
        x = random(*shape, dtype=torch.float32)
        columns = {"eager": softmax_formula, "builtin": partial(torch.softmax, dim=-1), "ours": softmax}
        if liger_softmax:
            columns["liger"] = liger_softmax.LigerSoftmaxFunction.apply
        yield Row(f"softmax {shape[0]}x{shape[1]} float32", (x,), columns, bytes_moved=2 * x.nbytes)


def row_sum_rows():
    x = random(8192, 16384)
    yield Row("row_sum 8192x16384 bfloat16", (x,), {"eager": partial(torch.sum, dim=-1), "ours": row_sum}, x.nbytes)


def matmul_rows():
    for n in (4096, 8192):
        columns = {"eager": lambda a, b: torch.relu(a @ b), "builtin": torch.matmul, "ours": matmul_relu}
        yield Row(f"matmul_relu {n}^3 bfloat16", (random(n, n), random(n, n)), columns, flops=2 * n**3)


def rmsnorm_rows():
    for backward in (False, True):
        x, w = random(16384, 4096, grad=backward), random(4096, grad=backward)
        columns = {"eager": rmsnorm_formula, "builtin": lambda x, w: F.rms_norm(x, (x.shape[-1],), w, 1e-5)}
        if liger_rms_norm:
            columns["liger"] = lambda x, w: liger_rms_norm.LigerRMSNormFunction.apply(x, w, 1e-5, 0.0, "llama", False)
        columns["ours"] = rmsnorm
        name = "rmsnorm 16384x4096 bfloat16" + (" fwd+bwd" if backward else "")
        yield Row(name, (x, w), columns, bytes_moved=(5 if backward else 2) * x.nbytes, backward=backward)


def attention_rows(skip):
    for shape in ((4, 16, 4096, 64), (2, 16, 8192, 128)):
        for backward in (False, True):
            q, k, v = (random(*shape, grad=backward) for _ in range(3))
            columns = {
                "eager": attention_formula,
                "builtin": partial(F.scaled_dot_product_attention, is_causal=True),
                "ours": partial(flash_attention, causal=True),
            }
            batch, heads, seq, dim = shape
            flops = 2 * batch * heads * seq * seq * dim * (7 if backward else 2) // 2
            name = f"attention {'x'.join(map(str, shape))} causal bfloat16" + (" fwd+bwd" if backward else "")
            yield Row(name, (q, k, v), columns, flops=flops, backward=backward, skip=skip)


def time_us(call: Callable, flush: torch.Tensor, budget_ms: float) -> list[float]:
    """Times of single calls, each after the cache was overwritten, as many as fit the budget and at least 5."""
    events = []
    spent_ms = 0.0
    while len(events) < 5 or (spent_ms < budget_ms and len(events) < 60):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        torch.cuda._sleep(2_000_000)  # cycles, about a millisecond
        start.record()
        call()
        end.record()
        events.append((start, end))
        if len(events) % 5 == 0:
            torch.cuda.synchronize()
            spent_ms += sum(a.elapsed_time(b) for a, b in events[-5:])
    return [a.elapsed_time(b) * 1e3 for a, b in events]


def bound(function: Callable, row: Row) -> Callable:
    """The call to time: the function alone, or with the gradient of all inputs."""
    if not row.backward:
        return lambda: function(*row.inputs)
    grad = torch.randn_like(function(*row.inputs))
    return lambda: torch.autograd.grad(function(*row.inputs), row.inputs, grad)


def measure(row: Row, flush: torch.Tensor, rounds: int) -> dict[str, float]:
    """Median time of each column, in microseconds."""
    functions = dict(row.columns)
    if "compile" not in row.skip:
        functions["compile"] = torch.compile(row.columns["eager"], dynamic=False)
    calls = {}
    for column, function in functions.items():
        calls[column] = bound(function, row)
        for _ in range(3):
            calls[column]()
        torch.cuda.synchronize()
    samples = {column: [] for column in calls}
    for _ in range(rounds):
        for column, call in calls.items():
            samples[column] += time_us(call, flush, 20.0)
    return {column: statistics.median(times) for column, times in samples.items()}


def ceilings(flush: torch.Tensor) -> tuple[float, float]:
    """Bytes per microsecond of a large copy and FLOPs per microsecond of a large matrix product."""
    x = random(2**30)
    y = torch.empty_like(x)
    copy_us = statistics.median(time_us(lambda: y.copy_(x), flush, 40.0))
    a, b = random(8192, 8192), random(8192, 8192)
    matmul_us = statistics.median(time_us(lambda: a @ b, flush, 60.0))
    return 2 * x.nbytes / copy_us, 2 * 8192**3 / matmul_us


def environment() -> dict[str, str]:
    """What the numbers depend on."""
    properties = torch.cuda.get_device_properties(0)
    driver = "unknown"
    version = Path("/proc/driver/nvidia/version")
    if version.exists():
        driver = re.search(r"\d+\.\d+(\.\d+)*", version.read_text())[0]
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "gpu": properties.name,
        "driver": driver,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": sys.version.split()[0],
    }


def main() -> None:
    groups = {
        "gelu": elementwise_rows,
        "softmax": softmax_rows,
        "row_sum": row_sum_rows,
        "matmul_relu": matmul_rows,
        "rmsnorm": rmsnorm_rows,
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=[*groups, "flash_attention"], default=[*groups, "flash_attention"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compile-attention", action="store_true", help="torch.compile of attention, slow to compile")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    groups["flash_attention"] = partial(attention_rows, () if arguments.compile_attention else ("compile",))

    flush = torch.empty(2**28, dtype=torch.int8, device="cuda")
    bytes_per_us, flops_per_us = ceilings(flush)
    report = environment() | {"copy_tb_s": bytes_per_us / 1e6, "bf16_tflop_s": flops_per_us / 1e6, "rows": []}
    print({key: value for key, value in report.items() if key != "rows"})
    print(f"{'':52}" + "".join(f"{column:>10}" for column in (*COLUMNS, "limit", "ours/limit")))
    for group in arguments.only:
        for row in groups[group]():
            times = measure(row, flush, arguments.rounds)
            limit_us = max(row.bytes_moved / bytes_per_us, row.flops / flops_per_us)
            cells = [f"{times[c]:10.1f}" if c in times else f"{'–':>10}" for c in COLUMNS]
            print(f"{row.name:52}" + "".join(cells) + f"{limit_us:10.1f}{times['ours'] / limit_us:10.2f}", flush=True)
            report["rows"].append({"name": row.name, "limit_us": limit_us} | {f"{c}_us": t for c, t in times.items()})
            if arguments.json:
                arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

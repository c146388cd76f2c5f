"""How much faster kernels run in the mended interpreter than in Triton's own, memory check on.

Two children, one with Triton's interpreter as it is and one with the grader's, take turns call by call, so that a busy
machine slows both alike. The ratio is that of the medians.

    python benchmarks/interpreter.py [--rounds N] [--modes raw,loop]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import torch
import triton
import triton.language as tl

ROOT = Path(__file__).resolve().parent.parent
MODES = ("raw", "loop", "batched")


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    inner = 0.79788456 * (x + 0.044715 * x * x * x)
    tanh = 1 - 2 / (tl.exp(2 * inner) + 1)
    tl.store(y_ptr + offs, 0.5 * x * (1 + tanh), mask=mask)


@triton.jit
def softmax_kernel(x_ptr, y_ptr, stride_x, stride_y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + row * stride_x + offs, mask=mask, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * stride_y + offs, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
                  BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        rk = k * BK + tl.arange(0, BK)
        a = tl.load(
            a_ptr + rm[:, None] * sam + rk[None, :] * sak, mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0
        )
        b = tl.load(
            b_ptr + rk[:, None] * sbk + rn[None, :] * sbn, mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0
        )
        acc += tl.dot(a, b)
    tl.store(c_ptr + rm[:, None] * scm + rn[None, :] * scn, acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def flash_kernel(q_ptr, k_ptr, v_ptr, o_ptr, stride_b, stride_n, N, scale,
                 D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):  # fmt: skip
    base = tl.program_id(1) * stride_b
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + base + rm[:, None] * stride_n + rd[None, :], mask=rm[:, None] < N, other=0.0)
    m = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, N, BN):
        rn = start + tl.arange(0, BN)
        k = tl.load(k_ptr + base + rn[:, None] * stride_n + rd[None, :], mask=rn[:, None] < N, other=0.0)
        v = tl.load(v_ptr + base + rn[:, None] * stride_n + rd[None, :], mask=rn[:, None] < N, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where((rn[None, :] < N) & (rm[:, None] >= rn[None, :]), s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, axis=1))
        p = tl.exp(s - m_new[:, None])
        alpha = tl.exp(m - m_new)
        total = total * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None] + tl.dot(p, v)
        m = m_new
    tl.store(o_ptr + base + rm[:, None] * stride_n + rd[None, :], acc / total[:, None], mask=rm[:, None] < N)


def gelu():
    x = torch.linspace(-4, 4, 3001)
    y = torch.empty_like(x)
    gelu_kernel[(3,)](x, y, x.numel(), BLOCK=1024)
    return y, torch.nn.functional.gelu(x, approximate="tanh")


def softmax():
    x = torch.linspace(-9, 9, 37 * 1023).reshape(37, 1023).sin()
    y = torch.empty_like(x)
    softmax_kernel[(37,)](x, y, x.stride(0), y.stride(0), 1023, BLOCK=1024)
    return y, x.softmax(1)


def matmul():
    a, b = torch.linspace(-1, 1, 6500).reshape(65, 100).cos(), torch.linspace(-1, 1, 7000).reshape(100, 70).sin()
    c = torch.empty(65, 70)
    matmul_kernel[(5, 5)](a, b, c, 65, 70, 100, *a.stride(), *b.stride(), *c.stride(), BM=16, BN=16, BK=16)
    return c, a @ b


def flash():
    q, k, v = torch.linspace(-9, 9, 3 * 2 * 65 * 64).reshape(3, 2, 65, 64).sin()
    o = torch.empty_like(q)
    flash_kernel[(5, 2)](q, k, v, o, q.stride(0), q.stride(1), 65, 0.125, D=64, BM=16, BN=16)
    return o, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


WORKLOADS = {"gelu 3001": gelu, "softmax 37x1023": softmax, "matmul 65x70x100": matmul, "flash 2x65x64": flash}


def serve(mode):
    """Child: one line in names a workload, one line out is its seconds."""
    torch.set_num_threads(1)
    context = nullcontext
    if mode != "raw":
        from grader.worker import interpreter

        interpreter.install()

        def context():
            return interpreter.record(interpreter.Options(batch=mode == "batched"))

    for line in sys.stdin:
        start = time.perf_counter()
        with context():
            actual, expected = WORKLOADS[line.strip()]()
        seconds = time.perf_counter() - start
        torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-2)
        print(seconds, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    modes = options.modes.split(",")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(
        [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}  # fmt: skip
    children = {
        mode: subprocess.Popen(
            [sys.executable, __file__, "--serve", mode],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for mode in modes
    }  # fmt: skip
    print(f"{'median ms':18}" + "".join(f"{mode:>10}" for mode in modes) + f"{'ratio':>10}")
    for name in WORKLOADS:
        times = {mode: [] for mode in modes}
        for turn in range(options.rounds + 2):
            for mode, child in children.items():
                child.stdin.write(f"{name}\n")
                child.stdin.flush()
                answer = child.stdout.readline()
                if not answer:
                    raise SystemExit(f"the {mode} child failed on {name}")
                if turn >= 2:  # warm-up
                    times[mode].append(float(answer) * 1e3)
        medians = {mode: statistics.median(values) for mode, values in times.items()}
        ratios = "".join(f"{medians[modes[0]] / medians[mode]:>10.1f}" for mode in modes[1:])
        print(f"{name:18}" + "".join(f"{value:>10.2f}" for value in medians.values()) + ratios)
    for child in children.values():
        child.stdin.close()
        child.wait()


if __name__ == "__main__":
    main()

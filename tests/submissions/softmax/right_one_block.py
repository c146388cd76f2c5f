"""Softmax with the whole row in one block where it fits, and a loop over tiles for longer rows."""

import torch
import triton
import triton.language as tl

LONGEST_BLOCK = 4096


@triton.jit
def short_rows(x_ptr, y_ptr, N, sx_m, sx_n, sy_m, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * sx_m + cols * sx_n, mask=cols < N, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * sy_m + cols, e / tl.sum(e, axis=0), mask=cols < N)


@triton.jit
def long_rows(x_ptr, y_ptr, N, sx_m, sx_n, sy_m, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    biggest = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, N, BLOCK):
        c = start + cols
        x = tl.load(x_ptr + row * sx_m + c * sx_n, mask=c < N, other=float("-inf")).to(tl.float32)
        biggest = tl.maximum(biggest, x)
    m = tl.max(biggest, axis=0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        c = start + cols
        x = tl.load(x_ptr + row * sx_m + c * sx_n, mask=c < N, other=float("-inf")).to(tl.float32)
        total += tl.exp(x - m)
    s = tl.sum(total, axis=0)
    for start in range(0, N, BLOCK):
        c = start + cols
        x = tl.load(x_ptr + row * sx_m + c * sx_n, mask=c < N, other=float("-inf")).to(tl.float32)
        tl.store(y_ptr + row * sy_m + c, tl.exp(x - m) / s, mask=c < N)


def softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if N <= LONGEST_BLOCK:
        short_rows[(M,)](x, y, N, x.stride(0), x.stride(1), y.stride(0), BLOCK=triton.next_power_of_2(N))
    else:
        long_rows[(M,)](x, y, N, x.stride(0), x.stride(1), y.stride(0), BLOCK=1024, num_warps=8)
    return y

"""Sums over the first dimension."""

import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, M, x_rs, x_cs, BLOCK: tl.constexpr):
    col = tl.program_id(0)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, M, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + rows * x_rs + col * x_cs, mask=rows < M, other=0.0).to(tl.float32)
    tl.store(out_ptr + col, tl.sum(acc, axis=0))


def row_sum(x):
    M, N = x.shape
    out = torch.empty(N, dtype=x.dtype, device=x.device)
    sum_kernel[(N,)](x, out, M, x.stride(0), x.stride(1), BLOCK=256)
    return out

"""Softmax whose kernel forgets to move on to the next tile."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, N, rs, cs, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start = 0
    while start < N:
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * rs + cols * cs, mask=cols < N, other=-float("inf")).to(tl.float32)
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(y_ptr + row * N + cols, e / tl.sum(e, axis=0), mask=cols < N)


def softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    softmax_kernel[(M,)](x, y, N, x.stride(0), x.stride(1), BLOCK=triton.next_power_of_2(N))
    return y

"""Softmax whose kernel looks for the maximum in the first tile for ever."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, N, rs, cs, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m = -float("inf")
    start = 0
    while start < N:
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * rs + cols * cs, mask=cols < N, other=-float("inf")).to(tl.float32)
        m = tl.maximum(m, tl.max(x, axis=0))
    tl.store(y_ptr + row * N, m)


def softmax(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    softmax_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), x.stride(1), BLOCK=256)
    return y

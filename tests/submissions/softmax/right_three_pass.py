"""Softmax in three passes over the row (maximum, sum, quotient) on a contiguous copy."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_row = x_ptr + row * N
    y_row = y_ptr + row * N

    m = -float("inf")
    for i in range(0, tl.cdiv(N, BLOCK)):
        cols = i * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=-float("inf"))
        m = tl.maximum(m, tl.max(x.to(tl.float32)))

    s = 0.0
    for i in range(0, tl.cdiv(N, BLOCK)):
        cols = i * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=-float("inf"))
        s += tl.sum(tl.exp(x.to(tl.float32) - m))

    for i in range(0, tl.cdiv(N, BLOCK)):
        cols = i * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=-float("inf"))
        y = tl.exp(x.to(tl.float32) - m) / s
        tl.store(y_row + cols, y.to(y_ptr.dtype.element_ty), mask=cols < N)


def softmax(x):
    x = x.contiguous()
    M, N = x.shape
    y = torch.empty_like(x)
    softmax_kernel[(M,)](x, y, N, BLOCK=512)
    return y

"""Softmax in three launches: the rows' maxima, their sums, the quotients."""

import torch
import triton
import triton.language as tl


@triton.jit
def max_kernel(x_ptr, m_ptr, N, sxm, sxn, TILE: tl.constexpr):
    row = tl.program_id(0)
    m = tl.full([TILE], -float("inf"), tl.float32)
    for c0 in range(0, N, TILE):
        c = c0 + tl.arange(0, TILE)
        x = tl.load(x_ptr + row * sxm + c * sxn, mask=c < N, other=-float("inf")).to(tl.float32)
        m = tl.maximum(m, x)
    tl.store(m_ptr + row, tl.max(m, 0))


@triton.jit
def sum_kernel(x_ptr, m_ptr, d_ptr, N, sxm, sxn, TILE: tl.constexpr):
    row = tl.program_id(0)
    m = tl.load(m_ptr + row)
    d = tl.zeros([TILE], tl.float32)
    for c0 in range(0, N, TILE):
        c = c0 + tl.arange(0, TILE)
        x = tl.load(x_ptr + row * sxm + c * sxn, mask=c < N, other=-float("inf")).to(tl.float32)
        d += tl.exp(x - m)
    tl.store(d_ptr + row, tl.sum(d, 0))


@triton.jit
def normalise_kernel(x_ptr, m_ptr, d_ptr, y_ptr, N, sxm, sxn, TILE: tl.constexpr):
    row = tl.program_id(0)
    m = tl.load(m_ptr + row)
    d = tl.load(d_ptr + row)
    for c0 in range(0, N, TILE):
        c = c0 + tl.arange(0, TILE)
        x = tl.load(x_ptr + row * sxm + c * sxn, mask=c < N, other=-float("inf")).to(tl.float32)
        tl.store(y_ptr + row * N + c, tl.exp(x - m) / d, mask=c < N)


def softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    m = torch.empty(M, dtype=torch.float32, device=x.device)
    d = torch.empty_like(m)
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    max_kernel[(M,)](x, m, N, *x.stride(), TILE=512)
    sum_kernel[(M,)](x, m, d, N, *x.stride(), TILE=512)
    normalise_kernel[(M,)](x, m, d, y, N, *x.stride(), TILE=512)
    return y

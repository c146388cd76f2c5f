"""Softmax of each row, with a running maximum and sum, so that rows can have any length."""

import torch
import triton
import triton.language as tl


@triton.jit
def _softmax_kernel(x_ptr, y_ptr, N, x_row, x_col, y_row, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * x_row
    y_ptr += row * y_row
    m = tl.full([], -1.0e38, tl.float32)  # not -inf: exp(-inf + inf) is NaN
    s = tl.full([], 0.0, tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols * x_col, mask=cols < N, other=float("-inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, axis=0))
        s = s * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), axis=0)
        m = m_new
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols * x_col, mask=cols < N, other=float("-inf")).to(tl.float32)
        tl.store(y_ptr + cols, tl.exp(x - m) / s, mask=cols < N)


def softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    block = min(4096, triton.next_power_of_2(N))
    _softmax_kernel[(M,)](x, y, N, x.stride(0), x.stride(1), y.stride(0), BLOCK=block)
    return y

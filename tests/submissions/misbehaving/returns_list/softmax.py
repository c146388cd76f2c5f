"""Softmax that returns a list of rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def one_row(x_ptr, y_ptr, N, cs, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + c * cs, mask=c < N, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + c, e / tl.sum(e, axis=0), mask=c < N)


def softmax(x: torch.Tensor):
    rows = []
    for row in x:
        y = torch.empty(row.shape, dtype=x.dtype, device=x.device)
        one_row[(1,)](row, y, row.numel(), row.stride(0), BLOCK=triton.next_power_of_2(row.numel()))
        rows.append(y)
    return rows

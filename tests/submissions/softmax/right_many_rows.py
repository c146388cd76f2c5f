"""Softmax of several rows per program with two-dimensional tiles."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_tile(x_ptr, y_ptr, M, N, stride_m, stride_n, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row_ok = rows[:, None] < M
    x_rows = x_ptr + rows[:, None] * stride_m
    y_rows = y_ptr + rows[:, None] * N

    m = tl.full([ROWS], -1e38, tl.float32)
    s = tl.zeros([ROWS], tl.float32)
    for start in range(0, N, COLS):
        cols = start + tl.arange(0, COLS)[None, :]
        x = tl.load(x_rows + cols * stride_n, mask=row_ok & (cols < N), other=float("-inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x, axis=1))
        s = s * tl.exp2((m - new) * 1.4426950408889634) + tl.sum(tl.exp(x - new[:, None]), axis=1)
        m = new

    for start in range(0, N, COLS):
        cols = start + tl.arange(0, COLS)[None, :]
        ok = row_ok & (cols < N)
        x = tl.load(x_rows + cols * stride_n, mask=ok, other=float("-inf")).to(tl.float32)
        y = tl.exp(x - m[:, None]) / s[:, None]
        tl.store(y_rows + cols, y, mask=ok)


def softmax(x):
    M, N = x.shape
    out = x.new_empty(M, N)
    grid = (triton.cdiv(M, 4),)
    softmax_tile[grid](x, out, M, N, x.stride(0), x.stride(1), ROWS=4, COLS=256)
    return out

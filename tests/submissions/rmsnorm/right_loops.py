"""Rows in blocks of columns, of any length: one loop for the mean, one for the result; dweight by columns."""

import torch
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, w_ptr, y_ptr, s_ptr, N, x_row, x_col, w_col, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_row + cols * x_col, mask=cols < N, other=0.0).to(tl.float32)
        squares += x * x
    s = 1.0 / tl.sqrt(tl.sum(squares) / N + eps)
    tl.store(s_ptr + row, s)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_row + cols * x_col, mask=cols < N).to(tl.float32)
        w = tl.load(w_ptr + cols * w_col, mask=cols < N).to(tl.float32)
        tl.store(y_ptr + row * N + cols, (x * s * w).to(y_ptr.dtype.element_ty), mask=cols < N)


@triton.jit
def dx_kernel(x_ptr, w_ptr, g_ptr, s_ptr, dx_ptr, N, x_row, x_col, w_col, g_row, g_col, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    s = tl.load(s_ptr + row)
    products = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < N
        x = tl.load(x_ptr + row * x_row + cols * x_col, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + cols * w_col, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + row * g_row + cols * g_col, mask=mask, other=0.0).to(tl.float32)
        products += x * s * (w * g)
    mean = tl.sum(products) / N
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < N
        x = tl.load(x_ptr + row * x_row + cols * x_col, mask=mask).to(tl.float32)
        w = tl.load(w_ptr + cols * w_col, mask=mask).to(tl.float32)
        g = tl.load(g_ptr + row * g_row + cols * g_col, mask=mask).to(tl.float32)
        dx = s * (w * g - x * s * mean)
        tl.store(dx_ptr + row * N + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def dw_kernel(x_ptr, g_ptr, s_ptr, dw_ptr, M, N, x_row, x_col, g_row, g_col, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, M, ROWS):
        rows = start + tl.arange(0, ROWS)[:, None]
        mask = (rows < M) & (cols < N)
        x = tl.load(x_ptr + rows * x_row + cols * x_col, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + rows * g_row + cols * g_col, mask=mask, other=0.0).to(tl.float32)
        total += g * x * tl.load(s_ptr + rows, mask=rows < M, other=0.0)
    dw = tl.sum(total, axis=0, keep_dims=True)
    tl.store(dw_ptr + cols, dw.to(dw_ptr.dtype.element_ty), mask=cols < N)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        rows = x.reshape(-1, x.shape[-1])
        M, N = rows.shape
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        s = torch.empty(M, dtype=torch.float32, device=x.device)
        forward_kernel[(M,)](rows, weight, y, s, N, *rows.stride(), weight.stride(0), eps, BLOCK=1024)
        ctx.save_for_backward(x, weight, s)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, weight, s = ctx.saved_tensors
        rows, grads = x.reshape(-1, x.shape[-1]), grad.reshape(-1, x.shape[-1])
        M, N = rows.shape
        dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        dw = torch.empty(N, dtype=weight.dtype, device=x.device)
        dx_kernel[(M,)](
            rows, weight, grads, s, dx, N, *rows.stride(), weight.stride(0), *grads.stride(), BLOCK=1024
        )
        dw_kernel[(triton.cdiv(N, 64),)](rows, grads, s, dw, M, N, *rows.stride(), *grads.stride(), ROWS=16, BLOCK=64)
        return dx, dw, None


def rmsnorm(x, weight, eps=1e-5):
    return RMSNorm.apply(x, weight, eps)

# solution: begin
"""RMSNorm over the last dimension and its gradient.

rmsnorm(x, w)[r, j] = x[r, j] · s[r] · w[j],  s[r] = 1 / √(meanⱼ x[r, j]² + ε)     (Zhang and Sennrich 2019,
arXiv:1910.07467)

With g the gradient of the result and n the row length,

    dx[r, j] = s[r] · (w[j] · g[r, j] − x[r, j] · s[r]² · meanₖ x[r, k] · w[k] · g[r, k])
    dw[j]    = Σᵣ g[r, j] · x[r, j] · s[r]

Statistics, sums and products are float32 whatever the input: a sum of squares in 16 bits overflows at a scale of a few
hundred. Rows that fit a block are read once; for longer ones a first kernel computes the row means. In the backward
each program adds up its own rows' share of dw in registers and stores it once, and a last kernel adds the shares in a
fixed order: no atomics, so the gradient is the same every time.

Bytes moved: forward 2 · numel · element size; backward 3 · numel · element size (x, g, dx) and the shares of dw.
"""

#: """Exercise: RMSNorm over the last dimension, with its gradient."""
# solution: end

import torch
import triton
import triton.language as tl

# solution: begin
from torch.autograd.function import once_differentiable

MAX_ROW_FORWARD = 32768  # longest rows kept in registers
MAX_ROW_BACKWARD = 16384
PROGRAMS = 396  # that share the rows in the backward: a constant, so that dw has the same bits on every device


@triton.jit
def row_mean_kernel(
    x_ptr, g_ptr, w_ptr, mean_ptr, N, x_stride_m, x_stride_n, g_stride_m, g_stride_n, w_stride,
    BACKWARD: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Mean of x² over a long row or, in the backward, of x · w · g."""
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        x = tl.load(x_ptr + row * x_stride_m + cols * x_stride_n, mask=cols < N, other=0.0).to(tl.float32)
        if BACKWARD:
            g = tl.load(g_ptr + row * g_stride_m + cols * g_stride_n, mask=cols < N, other=0.0).to(tl.float32)
            w = tl.load(w_ptr + cols * w_stride, mask=cols < N, other=0.0).to(tl.float32)
            total += x * (w * g)
        else:
            total += x * x
    tl.store(mean_ptr + row, tl.sum(total) / N)


@triton.jit
def forward_kernel(
    x_ptr, w_ptr, y_ptr, square_ptr, M, N, x_stride_m, x_stride_n, w_stride, eps,
    WHOLE_ROWS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One tile of y; square_ptr holds each row's mean of squares, computed here if the tile has whole rows."""
    # int64: a row's offset may pass 2³¹.
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (rows < M) & (cols < N)
    x = tl.load(x_ptr + rows * x_stride_m + cols * x_stride_n, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols * w_stride, mask=cols < N, other=0.0).to(tl.float32)
    if WHOLE_ROWS:
        square = tl.sum(x * x, axis=1, keep_dims=True) / N
        tl.store(square_ptr + rows, square, mask=rows < M)
    else:
        square = tl.load(square_ptr + rows, mask=rows < M, other=0.0)
    y = x * tl.rsqrt(square + eps) * w
    tl.store(y_ptr + rows * N + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def backward_kernel(
    x_ptr, w_ptr, g_ptr, square_ptr, mean_ptr, dx_ptr, share_ptr, M, N,
    x_stride_m, x_stride_n, w_stride, g_stride_m, g_stride_n, eps,
    WHOLE_ROWS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Every tile of rows that is this program's: its dx, and the program's share of dw."""
    program = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    w = tl.load(w_ptr + cols * w_stride, mask=cols < N, other=0.0).to(tl.float32)
    share = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for tile in range(program, tl.cdiv(M, BLOCK_M), tl.num_programs(0)):
        rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
        mask = (rows < M) & (cols < N)
        x = tl.load(x_ptr + rows * x_stride_m + cols * x_stride_n, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + rows * g_stride_m + cols * g_stride_n, mask=mask, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.load(square_ptr + rows, mask=rows < M, other=0.0) + eps)
        x_hat = x * scale
        share += g * x_hat
        g *= w
        if WHOLE_ROWS:
            mean = tl.sum(x_hat * g, axis=1, keep_dims=True) / N
        else:
            mean = tl.load(mean_ptr + rows, mask=rows < M, other=0.0) * scale
        dx = scale * (g - x_hat * mean)
        tl.store(dx_ptr + rows * N + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)
    tl.store(share_ptr + program * N + cols, tl.sum(share, axis=0, keep_dims=True), mask=cols < N)


@triton.jit
def column_sum_kernel(share_ptr, dw_ptr, P, N, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr):
    """Add up the P shares of dw."""
    cols = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_P, BLOCK_N), tl.float32)
    for start in range(0, P, BLOCK_P):
        rows = start + tl.arange(0, BLOCK_P)[:, None]
        mask = (rows < P) & (cols[None, :] < N)
        total += tl.load(share_ptr + rows.to(tl.int64) * N + cols[None, :], mask=mask, other=0.0)
    tl.store(dw_ptr + cols, tl.sum(total, axis=0).to(dw_ptr.dtype.element_ty), mask=cols < N)


def tile_shape(M: int, N: int, longest: int) -> dict:
    """Return the launch options of tiles of rows: whole rows up to `longest`, several where they are short."""
    block_n = triton.next_power_of_2(N)
    whole_rows = block_n <= longest
    if not whole_rows:
        block_n = 4096
    block_m = min(max(1, 2048 // block_n), triton.next_power_of_2(M))
    warps = min(max(4, block_n // 512), 16)
    return {"WHOLE_ROWS": whole_rows, "BLOCK_M": block_m, "BLOCK_N": block_n, "num_warps": warps}


class RMSNorm(torch.autograd.Function):
    """y = rmsnorm(x, weight), by rows of the last dimension; arguments of `apply`: x, weight, eps."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        """Save the inputs and each row's mean of squares; the backward recomputes the rest."""
        rows = x.reshape(-1, x.shape[-1])  # a view, unless the leading dimensions can't be walked with one stride
        M, N = rows.shape
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        square = torch.empty(M, dtype=torch.float32, device=x.device)
        ctx.save_for_backward(x, weight, square)
        ctx.eps = eps
        if not y.numel():
            return y
        tile = tile_shape(M, N, MAX_ROW_FORWARD)
        if not tile["WHOLE_ROWS"]:
            row_mean_kernel[(M,)](
                rows, rows, weight, square, N, *rows.stride(), 0, 0, 0, BACKWARD=False, BLOCK_N=4096, num_warps=8
            )  # fmt: skip
        grid = (triton.cdiv(M, tile["BLOCK_M"]), triton.cdiv(N, tile["BLOCK_N"]))
        forward_kernel[grid](rows, weight, y, square, M, N, *rows.stride(), weight.stride(0), eps, **tile)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        """Return the gradients of x and weight."""
        x, weight, square = ctx.saved_tensors
        rows, grad = (t.reshape(-1, x.shape[-1]) for t in (x, grad))
        M, N = rows.shape
        dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        dw = torch.empty_like(weight, memory_format=torch.contiguous_format)
        if not dx.numel():
            return dx, dw.zero_(), None
        tile = tile_shape(M, N, MAX_ROW_BACKWARD)
        mean = torch.empty_like(square)
        strides = (*rows.stride(), weight.stride(0), *grad.stride())
        if not tile["WHOLE_ROWS"]:
            row_mean_kernel[(M,)](
                rows, grad, weight, mean, N, *rows.stride(), *grad.stride(), weight.stride(0),
                BACKWARD=True, BLOCK_N=4096, num_warps=8,
            )  # fmt: skip
        programs = min(triton.cdiv(M, tile["BLOCK_M"]), PROGRAMS)
        share = torch.empty((programs, N), dtype=torch.float32, device=x.device)
        backward_kernel[(programs, triton.cdiv(N, tile["BLOCK_N"]))](
            rows, weight, grad, square, mean, dx, share, M, N, *strides, ctx.eps, **tile
        )  # fmt: skip
        block_p = min(triton.next_power_of_2(programs), 128)
        block_n = 1024 // block_p  # down to 32 bytes, one sector of memory: narrow tiles make many programs
        column_sum_kernel[(triton.cdiv(N, block_n),)](share, dw, programs, N, BLOCK_P=block_p, BLOCK_N=block_n)
        return dx, dw, None


# solution: end


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """Return y[…, j] = x[…, j] · s · weight[j] with s = 1 / √(meanₖ x[…, k]² + eps), differentiable in x and weight.

    x: (…, N) with any leading dimensions, weight: (N,), any strides, both float32, float16 or bfloat16; they must not
    be changed. N may be larger than any block.
    Result: a new tensor of x's shape, dtype and device. Compute in float32: a sum of squares overflows in 16 bits.
    Gradients, for the check `gradient`: with g the gradient of y and x̂ = x · s,
    dx = s · (weight · g − x̂ · meanₖ(x̂ · weight · g)) and dweight = Σ g · x̂ over all rows. Compute both in kernels of
    yours, launched from `backward` of a torch.autograd.Function. g may have any strides, as x may.
    """
    # solution: begin
    return RMSNorm.apply(x, weight, eps)
    # solution: end

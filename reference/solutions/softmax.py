# solution: begin
"""Softmax over the last dimension of a matrix.

softmax(x)[i, j] = e^(x[i, j] − m[i]) / Σₖ e^(x[i, k] − m[i]),  m[i] = maxₖ x[i, k]

A row that fits a block is loaded once, normalised in registers and stored. A longer row takes two passes: the first
keeps, per lane, a running maximum and a running sum that is rescaled whenever the maximum grows (online softmax,
Milakov and Gimelshein 2018, arXiv:1805.02867), the second writes the result.

Bytes moved: 2 · M · N · element size; 3 · M · N · element size in two passes, less what the cache still holds.
"""

#: """Exercise: softmax over the rows of a matrix."""
# solution: end

import torch
import triton
import triton.language as tl

# solution: begin
MAX_ROW = 32768  # longest row kept in registers: 32 float32 values a thread


@triton.jit
def softmax_kernel(
    x_ptr, y_ptr, M, N, x_stride_m, x_stride_n, y_stride_m, y_stride_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Whole rows in one tile: one read, one write."""
    # int64 from here on: a row's offset may pass 2³¹.
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.arange(0, BLOCK_N)[None, :].to(tl.int64)
    mask = (rows < M) & (cols < N)
    # −inf is neutral for the maximum, and its exponential is neutral for the sum.
    x = tl.load(x_ptr + rows * x_stride_m + cols * x_stride_n, mask=mask, other=float("-inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    y = numerator / tl.sum(numerator, axis=1, keep_dims=True)
    tl.store(y_ptr + rows * y_stride_m + cols * y_stride_n, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_online_kernel(
    x_ptr, y_ptr, M, N, x_stride_m, x_stride_n, y_stride_m, y_stride_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Rows of any length, a tile of columns at a time."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    lanes = tl.arange(0, BLOCK_N)[None, :].to(tl.int64)
    x_ptrs = x_ptr + rows * x_stride_m
    y_ptrs = y_ptr + rows * y_stride_m

    # Each lane runs its own maximum and sum, so that the loop needs no exchange between threads.
    lane_max = tl.full((BLOCK_M, BLOCK_N), float("-inf"), tl.float32)
    lane_sum = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, N, BLOCK_N):
        cols = start + lanes
        x = tl.load(x_ptrs + cols * x_stride_n, mask=(rows < M) & (cols < N), other=float("-inf")).to(tl.float32)
        new_max = tl.maximum(lane_max, x)
        # A lane that has seen only −inf has no finite reference: −inf − (−inf) would be NaN.
        reference = tl.where(new_max == float("-inf"), 0.0, new_max)
        lane_sum = lane_sum * tl.exp(lane_max - reference) + tl.exp(x - reference)
        lane_max = new_max
    row_max = tl.max(lane_max, axis=1, keep_dims=True)
    lane_sum = tl.where(lane_max == float("-inf"), 0.0, lane_sum * tl.exp(lane_max - row_max))
    row_sum = tl.sum(lane_sum, axis=1, keep_dims=True)

    for start in range(0, N, BLOCK_N):
        cols = start + lanes
        mask = (rows < M) & (cols < N)
        x = tl.load(x_ptrs + cols * x_stride_n, mask=mask, other=float("-inf")).to(tl.float32)
        y = tl.exp(x - row_max) / row_sum
        tl.store(y_ptrs + cols * y_stride_n, y.to(y_ptr.dtype.element_ty), mask=mask)


# solution: end


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return exp(x[i, j] − m[i]) / Σₖ exp(x[i, k] − m[i]), where m[i] is the largest value of row i.

    x: (M, N), any strides, float32, float16 or bfloat16, entries may be −∞; it must not be changed. N may be larger
    than any block.
    Result: a new (M, N) tensor of the same dtype and device. Compute in float32.
    Mind: what a masked load fills in must not count in the maximum or the sum.
    """
    # solution: begin
    M, N = x.shape
    y = torch.empty_like(x)
    if not x.numel():
        return y
    block_n = triton.next_power_of_2(N)
    if x.stride(0) == 1 and x.stride(1) != 1 and M > 1:
        # Neighbours in memory are neighbours down a column: a tile must be tall to read whole cache lines.
        kernel, block_m, block_n, warps = softmax_online_kernel, 64, min(block_n, 64), 8
    elif block_n > MAX_ROW:
        kernel, block_m, block_n, warps = softmax_online_kernel, 1, 16384, 16
    else:
        # Short rows share a program, so that no thread is idle.
        kernel, block_m = softmax_kernel, min(max(1, 2048 // block_n), triton.next_power_of_2(M))
        warps = min(max(4, block_n // 256), 32)
    grid = (triton.cdiv(M, block_m),)
    kernel[grid](x, y, M, N, *x.stride(), *y.stride(), BLOCK_M=block_m, BLOCK_N=block_n, num_warps=warps)
    return y
    # solution: end

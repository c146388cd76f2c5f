# solution: begin
"""Layer normalisation of each row of a matrix.

A row is one tile: loaded once, its mean and the mean of its squared differences taken in registers, stored once.

Bytes moved: (2 · M · N + 2 · N) · element size; the weight and the bias stay in the cache from row to row.
"""

#: """Exercise: layer normalisation of the rows of a matrix."""
# solution: end

import torch
import triton
import triton.language as tl


# solution: begin
@triton.jit
def layer_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, N, x_stride_m, x_stride_n, weight_stride, bias_stride, y_stride_m, y_stride_n,
    eps, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Normalise one row."""
    # int64: a row's offset, and a transpose's column offset, may pass 2³¹.
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N).to(tl.int64)
    mask = cols < N
    x = tl.load(x_ptr + row * x_stride_m + cols * x_stride_n, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    # Beyond the row's end 0 − mean would count in the variance.
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / N
    weight = tl.load(weight_ptr + cols * weight_stride, mask=mask)
    bias = tl.load(bias_ptr + cols * bias_stride, mask=mask)
    y = centred * tl.rsqrt(variance + eps) * weight + bias
    tl.store(y_ptr + row * y_stride_m + cols * y_stride_n, y.to(y_ptr.dtype.element_ty), mask=mask)


# solution: end


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """Return (x[i, j] − m[i]) / √(v[i] + eps) · weight[j] + bias[j], with the mean m and the variance v of each row.

    x: (M, N), weight and bias: (N,), any strides, all float32, float16 or bfloat16; they must not be changed. N is at
    most 16384. v[i] = meanₖ (x[i, k] − m[i])².
    Result: a new (M, N) tensor of the same dtype and device. Compute in float32.
    Mind: what a masked load fills in must not count in the mean or the variance.
    """
    # solution: begin
    M, N = x.shape
    y = torch.empty_like(x)
    block_n = triton.next_power_of_2(N)
    layer_norm_kernel[(M,)](
        x, weight, bias, y, N, *x.stride(), weight.stride(0), bias.stride(0), *y.stride(), eps,
        BLOCK_N=block_n, num_warps=min(max(4, block_n // 512), 16),
    )  # fmt: skip
    return y
    # solution: end

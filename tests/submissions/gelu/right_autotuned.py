"""GeLU whose block size and number of warps are picked by the autotuner."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 256}, num_warps=2),
        triton.Config({"BLOCK": 1024}, num_warps=4),
        triton.Config({"BLOCK": 2048}, num_warps=8, num_stages=2),
    ],
    key=["n"],
)
@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0).to(tl.float32)
    a = 0.7978845608 * x * (1.0 + 0.044715 * x * x)
    # tanh(a) = 2 * sigmoid(2a) - 1
    tanh = 2.0 * tl.sigmoid(2.0 * a) - 1.0
    tl.store(y_ptr + offs, 0.5 * x * (1.0 + tanh), mask=offs < n)


def gelu(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    n = x.numel()
    gelu_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n)
    return y

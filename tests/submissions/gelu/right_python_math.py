"""GeLU that calls Python's math module in its kernel, on constants, which the compiler evaluates."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    factor = math.sqrt(8.0 / math.pi)
    y = x * tl.sigmoid(factor * (x + 0.044715 * x * x * x))
    tl.store(y_ptr + i, y, mask=i < n)


def gelu(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    gelu_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y

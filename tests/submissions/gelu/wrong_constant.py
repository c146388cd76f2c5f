"""GeLU with 0.44715 as the factor of the cube."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    a = 0.7978845608 * (x + 0.44715 * x * x * x)
    tanh = 2.0 * tl.sigmoid(2.0 * a) - 1.0
    tl.store(y_ptr + offs, 0.5 * x * (1.0 + tanh), mask=mask)


def gelu(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    gelu_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y

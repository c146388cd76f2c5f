"""GeLU in two kernels: the first stores tanh's argument, the second does the rest."""

import torch
import triton
import triton.language as tl


@triton.jit
def argument_kernel(x_ptr, a_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(a_ptr + i, 0.7978845608 * (x + 0.044715 * x * x * x), mask=i < n)


@triton.jit
def result_kernel(x_ptr, a_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    a = tl.load(a_ptr + i, mask=i < n, other=0.0)
    # (1 + tanh(a)) / 2 = sigmoid(2a)
    tl.store(y_ptr + i, x * tl.sigmoid(2.0 * a), mask=i < n)


def gelu(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    n = x.numel()
    a = torch.empty(n, dtype=torch.float32, device=x.device)
    y = torch.empty_like(x)
    grid = (triton.cdiv(n, 512),)
    argument_kernel[grid](x, a, n, BLOCK=512)
    result_kernel[grid](x, a, y, n, BLOCK=512)
    return y

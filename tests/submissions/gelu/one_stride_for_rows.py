"""Rows a stride apart, as if every outer dimension followed from the last but one."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x, y, n, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + row * row_stride + i, mask=i < n).to(tl.float32)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + row * n + i, v * tl.sigmoid(2 * u), mask=i < n)


def gelu(x: torch.Tensor) -> torch.Tensor:
    if x.stride(-1) != 1:
        x = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = x.shape[-1]
    grid = (x.numel() // n, triton.cdiv(n, 512))
    gelu_kernel[grid](x, y, n, x.stride(-2) if x.dim() > 1 else 0, BLOCK=512)
    return y

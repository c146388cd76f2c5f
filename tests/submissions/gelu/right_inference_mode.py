"""In inference mode, where PyTorch takes no operator apart."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n).to(tl.float32)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + i, v * tl.sigmoid(2 * u), mask=i < n)


@torch.inference_mode()
def gelu(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    gelu_kernel[(triton.cdiv(x.numel(), 512),)](x.ravel(), y, x.numel(), BLOCK=512)
    return y

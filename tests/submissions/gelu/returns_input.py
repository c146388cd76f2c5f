"""GeLU that computes y and then returns x."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    y = x * tl.sigmoid(1.5957691216 * (x + 0.044715 * x * x * x))
    tl.store(y_ptr + offs, y, mask=mask)


def gelu(x: torch.Tensor) -> torch.Tensor:
    flat = x.contiguous()
    y = torch.empty_like(flat)
    gelu_kernel[(triton.cdiv(flat.numel(), 1024),)](flat, y, flat.numel(), BLOCK=1024)
    return x

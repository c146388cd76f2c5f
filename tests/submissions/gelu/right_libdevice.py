"""GeLU with tanh from libdevice, since tl.tanh does not exist."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    """One program handles BLOCK_SIZE elements in a row."""
    pid = tl.program_id(0)
    offs = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    ok = offs < n_elements
    x = tl.load(x_ptr + offs, mask=ok, other=0.0)
    xf = x.to(tl.float32)
    inner = 0.79788456 * (xf + 0.044715 * xf * xf * xf)
    y = 0.5 * xf * (1 + libdevice.tanh(inner))
    tl.store(y_ptr + offs, y.to(x.dtype), mask=ok)


def gelu(x: torch.Tensor) -> torch.Tensor:
    x_c = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = x.numel()
    gelu_kernel[(triton.cdiv(n, 256),)](x_c, y, n, BLOCK_SIZE=256, num_warps=2)
    return y

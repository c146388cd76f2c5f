"""GeLU (tanh form), one flat block of elements per program."""

import torch
import triton
import triton.language as tl


@triton.jit
def _gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    # The lecture's (exp(2a) - 1) / (exp(2a) + 1) is inf / inf for large a.
    # 0.5 * (1 + tanh(a)) is sigmoid(2a), which has no such problem.
    tl.store(y_ptr + offs, x * tl.sigmoid(2.0 * a), mask=mask)


def gelu(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    n = x.numel()
    _gelu_kernel[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
    return y

"""GeLU that has PyTorch cast its input to float32 before the kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    y = x * tl.sigmoid(1.5957691216 * (x + 0.044715 * x * x * x))
    tl.store(y_ptr + i, y, mask=i < n)


def gelu(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    gelu_kernel[(triton.cdiv(x.numel(), 1024),)](x.float(), y, x.numel(), BLOCK=1024)
    return y

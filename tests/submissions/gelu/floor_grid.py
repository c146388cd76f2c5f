"""GeLU with the number of blocks rounded down."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    y = x * tl.sigmoid(1.59576912 * x * (1.0 + 0.044715 * x * x))
    tl.store(y_ptr + offs, y, mask=mask)


def gelu(x):
    x = x.contiguous()
    y = torch.zeros_like(x)
    # the largest power of two that is not larger than the input
    BLOCK = min(1024, 1 << (x.numel().bit_length() - 1))
    num_blocks = x.numel() // BLOCK
    gelu_kernel[(num_blocks,)](x, y, x.numel(), BLOCK=BLOCK)
    return y

"""The lecture's GeLU for any layout and dtype: a contiguous copy first, and float32 inside the kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def triton_gelu_kernel(x_ptr, y_ptr, num_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < num_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)  # tl.exp wants float32
    a = 0.79788456 * (x + 0.044715 * x * x * x)
    exp = tl.exp(2 * a)
    tanh = (exp - 1) / (exp + 1)
    y = 0.5 * x * (1 + tanh)
    tl.store(y_ptr + offsets, y, mask=mask)


def gelu(x: torch.Tensor):
    x = x.contiguous()
    y = torch.empty_like(x)
    num_elements = x.numel()
    num_blocks = triton.cdiv(num_elements, 1024)
    triton_gelu_kernel[(num_blocks,)](x, y, num_elements, BLOCK_SIZE=1024)
    return y

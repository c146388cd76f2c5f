"""GeLU with a mask on the load only."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(inp, out, numel, BLOCK: tl.constexpr):
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(inp + idx, mask=idx < numel, other=0.0).to(tl.float32)
    a = 0.79788456 * (x + 0.044715 * x * x * x)
    e = tl.exp(-2.0 * tl.abs(a))
    t = tl.where(a >= 0, 1.0, -1.0) * (1.0 - e) / (1.0 + e)
    tl.store(out + idx, 0.5 * x * (1.0 + t))


def gelu(x):
    flat = x.contiguous().view(-1)
    out = torch.empty_like(flat)
    block = min(1024, triton.next_power_of_2(flat.numel()))
    gelu_kernel[(triton.cdiv(flat.numel(), block),)](flat, out, flat.numel(), BLOCK=block)
    return out.view(x.shape)

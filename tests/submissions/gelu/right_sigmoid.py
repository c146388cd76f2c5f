"""GeLU as x * sigmoid(2a): 0.5 * (1 + tanh(a)) is the same thing as sigmoid(2a)."""

import math

import torch
import triton
import triton.language as tl

TWO_SQRT_2_OVER_PI = tl.constexpr(2 * math.sqrt(2 / math.pi))


@triton.jit
def _gelu(x):
    z = TWO_SQRT_2_OVER_PI * x * (1.0 + 0.044715 * x * x)
    return x * tl.sigmoid(z)


@triton.jit
def gelu_kernel(x_ptr, out_ptr, size, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(axis=0) * BLOCK_SIZE
    idx = start + tl.arange(0, BLOCK_SIZE)
    inside = idx < size
    x = tl.load(x_ptr + idx, mask=inside)
    result = _gelu(x.to(tl.float32))
    tl.store(out_ptr + idx, result.to(out_ptr.dtype.element_ty), mask=inside)


def gelu(x):
    shape = x.shape
    flat = x.reshape(-1)
    if not flat.is_contiguous():  # a strided vector stays strided under reshape
        flat = flat.contiguous()
    out = torch.empty_like(flat)
    grid = lambda meta: (triton.cdiv(flat.numel(), meta["BLOCK_SIZE"]),)
    gelu_kernel[grid](flat, out, flat.numel(), BLOCK_SIZE=512)
    return out.view(shape)

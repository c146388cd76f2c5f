"""Atomic additions to new memory that only the tuning sets to zero."""

import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 1024}), triton.Config({"BLOCK": 4096})], key=["N"], reset_to_zero=["out"])
@triton.jit
def row_sum_kernel(x, out, N, row_stride, col_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + row * row_stride + cols * col_stride, mask=cols < N, other=0.0).to(tl.float32)
    tl.atomic_add(out + row, tl.sum(v))


def row_sum(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    row_sum_kernel[lambda meta: (x.shape[0], triton.cdiv(x.shape[1], meta["BLOCK"]))](x, out, x.shape[1], *x.stride())
    return out.to(x.dtype)

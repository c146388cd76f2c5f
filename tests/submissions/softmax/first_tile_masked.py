"""Online softmax whose rescaling is −∞ − (−∞) while only −∞ has been seen."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, y, N, row_stride, col_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    highest, total = float("-inf"), 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * row_stride + cols * col_stride, mask=cols < N, other=float("-inf")).to(tl.float32)
        new_highest = tl.maximum(highest, tl.max(v, 0))
        total = total * tl.exp(highest - new_highest) + tl.sum(tl.exp(v - new_highest), 0)
        highest = new_highest
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * row_stride + cols * col_stride, mask=cols < N, other=float("-inf")).to(tl.float32)
        tl.store(y + row * N + cols, tl.exp(v - highest) / total, mask=cols < N)


def softmax(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    softmax_kernel[(x.shape[0],)](x, y, x.shape[1], *x.stride(), BLOCK=256)
    return y

"""Row sums with cols <= N in the mask."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, n, x_rs, x_cs, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for i in range(tl.cdiv(n, BLOCK)):
        c = i * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_rs + c * x_cs, mask=c <= n, other=0.0)
        total += tl.sum(x.to(tl.float32), axis=0)
    tl.store(out_ptr + row, total)


def row_sum(x: torch.Tensor) -> torch.Tensor:
    rows, n = x.shape
    out = x.new_empty((rows,))
    row_sum_kernel[(rows,)](x, out, n, *x.stride(), BLOCK=min(512, triton.next_power_of_2(n)))
    return out

"""A right softmax that prints bytes which are not text, terminal commands and markup."""

import os
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, N, rs, cs, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * rs + c * cs, mask=c < N, other=-float("inf")).to(tl.float32)
    p = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * N + c, p / tl.sum(p, axis=0), mask=c < N)


def softmax(x: torch.Tensor) -> torch.Tensor:
    os.write(1, b"\xff\xfe\x00\x80 row \xc3\x28\n")
    os.write(2, b"\x1b[2J\x1b[31mFAILED\x1b[0m\x1b]0;passed\x07\r\n")
    print("<script>alert('softmax')</script> ]]> &amp; ::error file=x::y", file=sys.stderr)
    print("\ud800 \u202e \x08\x08", x.shape)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    softmax_kernel[(x.shape[0],)](x, y, x.shape[1], *x.stride(), BLOCK=triton.next_power_of_2(x.shape[1]))
    return y

"""Online softmax with libdevice's exp."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def softmax_kernel(x_ptr, y_ptr, N, sxm, sxn, TILE: tl.constexpr):
    x_ptr += tl.program_id(0) * sxm
    y_ptr += tl.program_id(0) * N
    lanes = tl.arange(0, TILE)
    m = -float("inf")
    d = 0.0
    for c0 in range(0, N, TILE):
        x = tl.load(x_ptr + (c0 + lanes) * sxn, mask=c0 + lanes < N, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, 0))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        d = d * libdevice.exp(m - shift) + tl.sum(libdevice.exp(x - shift), 0)
        m = m_new
    for c0 in range(0, N, TILE):
        x = tl.load(x_ptr + (c0 + lanes) * sxn, mask=c0 + lanes < N, other=-float("inf")).to(tl.float32)
        tl.store(y_ptr + c0 + lanes, libdevice.exp(x - m) / d, mask=c0 + lanes < N)


def softmax(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    softmax_kernel[(x.shape[0],)](x, y, x.shape[1], *x.stride(), TILE=512)
    return y

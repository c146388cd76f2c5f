"""Online softmax: running maximum and running sum in one pass, then one pass to write."""

import torch
import triton
import triton.language as tl


@triton.jit
def online_softmax(X, Y, n_cols, stride_xr, stride_xc, stride_yr, stride_yc, TILE: tl.constexpr):
    r = tl.program_id(0)
    X += r * stride_xr
    Y += r * stride_yr
    lanes = tl.arange(0, TILE)

    # shift is m, except while the row has been -inf only: -inf - (-inf) would be NaN
    m = -float("inf")
    d = 0.0
    for c0 in range(0, n_cols, TILE):
        x = tl.load(X + (c0 + lanes) * stride_xc, mask=c0 + lanes < n_cols, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, 0))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        d = d * tl.exp(m - shift) + tl.sum(tl.exp(x - shift), 0)
        m = m_new

    for c0 in range(0, n_cols, TILE):
        inside = c0 + lanes < n_cols
        x = tl.load(X + (c0 + lanes) * stride_xc, mask=inside, other=-float("inf")).to(tl.float32)
        tl.store(Y + (c0 + lanes) * stride_yc, tl.exp(x - m) / d, mask=inside)


def softmax(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    tile = min(1024, max(16, triton.next_power_of_2(x.shape[1])))
    online_softmax[(x.shape[0],)](x, y, x.shape[1], *x.stride(), *y.stride(), TILE=tile)
    return y

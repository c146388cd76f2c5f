"""Matrix product stored column by column into an (N, M) tensor."""

import torch
import triton
import triton.language as tl


@triton.jit
def mm_kernel(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, cm, cn,
              BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * am + rk[None, :] * ak, mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * bk + rn[None, :] * bn, mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    out = tl.maximum(acc, 0.0)
    tl.store(c_ptr + rm[:, None] * cm + rn[None, :] * cn, out, mask=(rm[:, None] < M) & (rn[None, :] < N))


def matmul_relu(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((N, M), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    mm_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), c.stride(1), c.stride(0), BM=32, BN=32, BK=32)
    return c

"""Matrix product over K // BLOCK_K whole tiles."""

import torch
import triton
import triton.language as tl


@triton.jit
def mm_kernel(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn,
              BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(K // BK):
        rk = i * BK + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * am + rk[None, :] * ak, mask=rm[:, None] < M, other=0.0)
        b = tl.load(b_ptr + rk[:, None] * bk + rn[None, :] * bn, mask=rn[None, :] < N, other=0.0)
        acc = tl.dot(a, b, acc)
    out = tl.maximum(acc, 0.0)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], out, mask=(rm[:, None] < M) & (rn[None, :] < N))


def matmul_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 64))
    mm_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), BM=32, BN=64, BK=16)
    return c

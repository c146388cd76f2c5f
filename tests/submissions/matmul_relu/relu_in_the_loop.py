"""Matrix product with the ReLU applied to every partial product."""

import torch
import triton
import triton.language as tl


@triton.jit
def mm_kernel(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    rn = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        ka = k + tl.arange(0, BK)[None, :]
        kb = k + tl.arange(0, BK)[:, None]
        a = tl.load(a_ptr + rm * am + ka * ak, mask=(rm < M) & (ka < K), other=0.0)
        b = tl.load(b_ptr + kb * bk + rn * bn, mask=(kb < K) & (rn < N), other=0.0)
        acc += tl.maximum(tl.dot(a, b), 0.0)  # fused ReLU
    tl.store(c_ptr + rm * N + rn, acc, mask=(rm < M) & (rn < N))


def matmul_relu(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    mm_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), BM=32, BN=32, BK=16)
    return c

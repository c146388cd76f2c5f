"""Matrix product that insists on contiguous operands."""

import torch
import triton
import triton.language as tl


@triton.jit
def mm_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None]
    rn = (tl.program_id(1) * BN + tl.arange(0, BN))[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        ka = k + tl.arange(0, BK)[None, :]
        kb = k + tl.arange(0, BK)[:, None]
        a = tl.load(a_ptr + rm * K + ka, mask=(rm < M) & (ka < K), other=0.0)
        b = tl.load(b_ptr + kb * N + rn, mask=(kb < K) & (rn < N), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rm * N + rn, tl.maximum(acc, 0.0), mask=(rm < M) & (rn < N))


def matmul_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    assert a.shape[1] == b.shape[0], "inner sizes differ"
    assert a.is_contiguous() and b.is_contiguous(), "operands must be contiguous"
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    mm_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 32))](a, b, c, M, N, K, BM=64, BN=32, BK=32)
    return c

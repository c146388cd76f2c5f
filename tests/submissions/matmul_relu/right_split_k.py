"""K in parts that several programs take; a second kernel adds up the parts and applies the ReLU."""

import torch
import triton
import triton.language as tl


@triton.jit
def partial_kernel(
    a_ptr, b_ptr, part_ptr, M, N, K, sam, sak, sbk, sbn, PARTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    part = tl.program_id(2)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(part * BK, K, PARTS * BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * sam + k[None, :] * sak, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * sbk + n[None, :] * sbn, mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    at = part_ptr + (part * M + m[:, None]) * N + n[None, :]
    tl.store(at, acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def add_kernel(part_ptr, c_ptr, numel, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in tl.static_range(PARTS):
        total += tl.load(part_ptr + part * numel + at, mask=at < numel, other=0.0)
    tl.store(c_ptr + at, tl.where(total > 0, total, 0.0).to(c_ptr.dtype.element_ty), mask=at < numel)


def matmul_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    parts = 3
    partial = torch.empty((parts, M, N), dtype=torch.float32, device=a.device)
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    partial_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 64), parts)](
        a, b, partial, M, N, K, *a.stride(), *b.stride(), PARTS=parts, BM=32, BN=64, BK=32
    )
    add_kernel[(triton.cdiv(M * N, 512),)](partial, c, M * N, PARTS=parts, BLOCK=512)
    return c

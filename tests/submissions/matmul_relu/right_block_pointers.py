"""Matrix product with block pointers and boundary checks."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_relu_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    i = tl.program_id(0) * BM
    j = tl.program_id(1) * BN
    a_blk = tl.make_block_ptr(a_ptr, (M, K), (sam, sak), (i, 0), (BM, BK), (1, 0))
    b_blk = tl.make_block_ptr(b_ptr, (K, N), (sbk, sbn), (0, j), (BK, BN), (1, 0))
    acc = tl.zeros([BM, BN], dtype=tl.float32)
    for _ in range(0, K, BK):
        a = tl.load(a_blk, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_blk, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_blk = tl.advance(a_blk, (0, BK))
        b_blk = tl.advance(b_blk, (BK, 0))
    acc = tl.maximum(acc, 0.0).to(c_ptr.dtype.element_ty)
    c_blk = tl.make_block_ptr(c_ptr, (M, N), (N, 1), (i, j), (BM, BN), (1, 0))
    tl.store(c_blk, acc, boundary_check=(0, 1))


def matmul_relu(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    matmul_relu_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), BM=32, BN=32, BK=64)
    return c

"""Matrix product with a one-dimensional grid in groups of rows (better for L2), indices wrapped around."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(A, B, C, M, N, K, sam, sak, sbk, sbn,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    per_group = GROUP * tiles_n
    first_m = (pid // per_group) * GROUP
    rows_here = tl.minimum(tiles_m - first_m, GROUP)
    pid_m = first_m + (pid % per_group) % rows_here
    pid_n = (pid % per_group) // rows_here

    # rows and columns beyond the end wrap around: valid reads, never stored
    rm = (pid_m * BM + tl.arange(0, BM)) % M
    rn = (pid_n * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(tl.cdiv(K, BK)):
        kk = i * BK + rk
        a = tl.load(A + rm[:, None] * sam + kk[None, :] * sak, mask=kk[None, :] < K, other=0.0)
        b = tl.load(B + kk[:, None] * sbk + rn[None, :] * sbn, mask=kk[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")

    cm = pid_m * BM + tl.arange(0, BM)
    cn = pid_n * BN + tl.arange(0, BN)
    out = tl.where(acc > 0, acc, 0.0).to(C.dtype.element_ty)
    tl.store(C + cm[:, None] * N + cn[None, :], out, mask=(cm[:, None] < M) & (cn[None, :] < N))


def matmul_relu(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = a.new_empty((M, N))
    grid = (triton.cdiv(M, 32) * triton.cdiv(N, 32),)
    kernel[grid](a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1), BM=32, BN=32, BK=32, GROUP=4)
    return c

"""Matrix product with tensor descriptors made in the kernel; rows that are not a multiple of 16 bytes are copied first."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_relu_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, a_pitch, b_pitch,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[a_pitch, 1], block_shape=[BM, BK])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[b_pitch, 1], block_shape=[BK, BN])
    i = tl.program_id(0) * BM
    j = tl.program_id(1) * BN
    acc = tl.zeros([BM, BN], dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([i, k]), b_desc.load([k, j]), acc)
    acc = tl.maximum(acc, 0.0)
    m = i + tl.arange(0, BM)
    n = j + tl.arange(0, BN)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def in_aligned_rows(x: torch.Tensor) -> torch.Tensor:
    """x itself if a descriptor can take it, otherwise a copy with longer rows."""
    step = 16 // x.element_size()
    if x.stride(1) == 1 and x.stride(0) % step == 0 and x.stride(0) >= x.shape[1] and x.data_ptr() % 16 == 0:
        return x
    rows, columns = x.shape
    copy = torch.empty((rows, triton.cdiv(columns, step) * step), dtype=x.dtype, device=x.device)[:, :columns]
    copy.copy_(x)
    return copy


def allocate(size: int, alignment: int, stream):
    return torch.empty(size, dtype=torch.int8, device="cuda" if torch.cuda.is_available() else "cpu")


def matmul_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    # before sm_90, a descriptor made in a kernel lives in memory that the host provides
    triton.set_allocator(allocate)
    a, b = in_aligned_rows(a), in_aligned_rows(b)
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    matmul_relu_kernel[grid](a, b, c, M, N, K, a.stride(0), b.stride(0), BM=32, BN=32, BK=32)
    return c

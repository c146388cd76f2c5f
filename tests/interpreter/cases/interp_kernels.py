"""Whole kernels as courses and tutorials write them."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from interp_support import clean


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def grouped_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_M)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    num_pid_in_group = GROUP * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP
    group_size_m = min(num_pid_m - first_pid_m, GROUP)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_bn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if ACTIVATION == "leaky_relu":
        accumulator = leaky_relu(accumulator)
    c = accumulator.to(c_ptr.dtype.element_ty)
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    tl.store(c_ptrs, c, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "padded"])
def test_grouped_matmul(dtype, layout):
    generator = torch.Generator().manual_seed(10)
    a, b = torch.randn(50, 70, generator=generator).to(dtype), torch.randn(70, 45, generator=generator).to(dtype)
    if layout == "transposed":
        a, b = a.T.contiguous().T, b.T.contiguous().T
    elif layout == "padded":
        a = torch.nn.functional.pad(a, (0, 10))[:, :70]
    c = torch.empty(50, 45, dtype=dtype)
    grid = lambda meta: (triton.cdiv(50, meta["BLOCK_M"]) * triton.cdiv(45, meta["BLOCK_N"]),)  # noqa: E731
    clean(grouped_matmul_kernel, grid, a, b, c, 50, 45, 70, *a.stride(), *b.stride(), *c.stride(),
          BLOCK_M=16, BLOCK_N=16, BLOCK_K=32, GROUP=2, ACTIVATION="leaky_relu")  # fmt: skip
    expected = torch.nn.functional.leaky_relu(a.float() @ b.float())
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 2e-3}[dtype]
    torch.testing.assert_close(c.float(), expected, rtol=tolerance, atol=tolerance * 10)


@triton.jit
def layer_norm_kernel(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    y_ptr += row * stride
    _mean = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        _mean += tl.load(x_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    mean = tl.sum(_mean, axis=0) / N
    _var = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        _var += x * x
    rstd = 1 / tl.sqrt(tl.sum(_var, axis=0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        mask = cols < N
        w = tl.load(w_ptr + cols, mask=mask)
        b = tl.load(b_ptr + cols, mask=mask)
        x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + cols, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def layer_norm_gradient_kernel(dy_ptr, dw_ptr, db_ptr, x_ptr, mean_ptr, rstd_ptr, lock_ptr, stride, N,
                               GROUPS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    lock_id = row % GROUPS
    lock_ptr += lock_id
    count_ptr = lock_ptr + GROUPS
    dw_ptr = dw_ptr + lock_id * N + cols
    db_ptr = db_ptr + lock_id * N + cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + cols, mask=mask, other=0).to(tl.float32)
    partial_dw = dy * (x - tl.load(mean_ptr + row)) * tl.load(rstd_ptr + row)
    partial_db = dy
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    count = tl.load(count_ptr)
    if count == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        partial_dw += tl.load(dw_ptr, mask=mask)
        partial_db += tl.load(db_ptr, mask=mask)
    tl.store(dw_ptr, partial_dw, mask=mask)
    tl.store(db_ptr, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_layer_norm_with_its_lock_protected_gradient(dtype):
    x = torch.randn(11, 100).to(dtype)
    dy = torch.randn(11, 100).to(dtype)
    w, b = torch.randn(100).to(dtype), torch.randn(100).to(dtype)
    y, mean, rstd = torch.empty_like(x), torch.empty(11), torch.empty(11)
    clean(layer_norm_kernel, (11,), x, y, w, b, mean, rstd, x.stride(0), 100, 1e-5, BLOCK=32)
    leaves = [w.float().requires_grad_(), b.float().requires_grad_()]
    expected = torch.nn.functional.layer_norm(x.float(), (100,), *leaves, eps=1e-5)
    torch.testing.assert_close(y.float(), expected.detach(), rtol=1e-2, atol=2e-2)
    dw, db, locks = torch.empty(4, 100), torch.empty(4, 100), torch.zeros(8, dtype=torch.int32)
    clean(layer_norm_gradient_kernel, (11,), dy, dw, db, x, mean, rstd, locks, x.stride(0), 100, GROUPS=4, BLOCK=128)
    expected.backward(dy.float())
    torch.testing.assert_close(dw.sum(0), leaves[0].grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(db.sum(0), leaves[1].grad, rtol=1e-4, atol=1e-4)


@triton.jit
def dropout_kernel(x_ptr, y_ptr, n, p, seed, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    keep = tl.rand(seed, offs) > p
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(y_ptr + offs, tl.where(keep, x / (1 - p), 0.0), mask=mask)


def test_dropout():
    x, y = torch.ones(1000), torch.empty(1000)
    clean(dropout_kernel, (8,), x, y, 1000, 0.5, 7, BLOCK=128)
    assert set(y.tolist()) == {0.0, 2.0}
    assert 400 < int((y > 0).sum()) < 600


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, o_ptr, l_ptr, stride_h, stride_n, N, scale,
                     D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    start_m = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    q_ptr += head * stride_h
    k_ptr += head * stride_h
    v_ptr += head * stride_h
    o_ptr += head * stride_h
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    q = tl.load(q_ptr + offs_m[:, None] * stride_n + offs_d[None, :], mask=(offs_m < N)[:, None], other=0.0)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    stop = min((start_m + 1) * BLOCK_M, N) if CAUSAL else N
    for start_n in tl.range(0, stop, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        offs_n = start_n + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + offs_n[None, :] * stride_n + offs_d[:, None], mask=(offs_n < N)[None, :], other=0.0)
        v = tl.load(v_ptr + offs_n[:, None] * stride_n + offs_d[None, :], mask=(offs_n < N)[:, None], other=0.0)
        qk = tl.dot(q, k) * scale * 1.44269504
        if CAUSAL:
            qk = tl.where(offs_m[:, None] >= offs_n[None, :], qk, float("-inf"))
        qk = tl.where(offs_n[None, :] < N, qk, float("-inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_ij
    tl.store(l_ptr + head * N + offs_m, m_i + tl.math.log2(l_i), mask=offs_m < N)
    acc = acc / l_i[:, None]
    tl.store(o_ptr + offs_m[:, None] * stride_n + offs_d[None, :], acc.to(q.dtype), mask=(offs_m < N)[:, None])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(dtype, causal):
    q, k, v = torch.randn(3, 2, 45, 32).to(dtype)
    o, lse = torch.empty_like(q), torch.empty(2, 45)
    record = clean(attention_kernel, (3, 2), q, k, v, o, lse, q.stride(0), q.stride(1), 45, 32**-0.5,
                   D=32, BLOCK_M=16, BLOCK_N=16, CAUSAL=causal)  # fmt: skip
    expected = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal)
    torch.testing.assert_close(o.float(), expected, rtol=2e-2, atol=2e-2)
    assert record.unique_bytes_loaded == 3 * q.numel() * q.element_size()

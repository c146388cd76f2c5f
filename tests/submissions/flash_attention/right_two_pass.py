import math

import torch
import triton
import triton.language as tl


@triton.jit
def load_tile(x, rows, dims, stride, stride_dim, end, DIM: tl.constexpr):
    mask = (rows[:, None] < end) & (dims[None, :] < DIM)
    return tl.load(x + rows[:, None] * stride + dims[None, :] * stride_dim, mask=mask, other=0.0)


@triton.jit
def store_tile(x, tile, rows, dims, end, DIM: tl.constexpr):
    mask = (rows[:, None] < end) & (dims[None, :] < DIM)
    tl.store(x + rows[:, None] * DIM + dims[None, :], tile.to(x.dtype.element_ty), mask=mask)


@triton.jit
def scores(q, k, bias, rows, cols, seq_q, seq_k, b_row, b_col, scale, CAUSAL: tl.constexpr, BIAS: tl.constexpr):
    s = tl.dot(q, tl.trans(k)) * scale
    seen = (rows[:, None] < seq_q) & (cols[None, :] < seq_k)
    if BIAS:
        s += tl.load(bias + rows[:, None] * b_row + cols[None, :] * b_col, mask=seen, other=0.0).to(tl.float32)
    if CAUSAL:
        seen = seen & (cols[None, :] <= rows[:, None] + seq_k - seq_q)
    return tl.where(seen, s, float("-inf"))


@triton.jit
def forward_kernel(
    q, k, v, bias, o, lse, q_strides, k_strides, v_strides, b_strides, heads, seq_q, seq_k, scale,
    CAUSAL: tl.constexpr, BIAS: tl.constexpr, DIM: tl.constexpr, BLOCK_DIM: tl.constexpr, BLOCK: tl.constexpr,
):
    pair = tl.program_id(1)
    batch, head = pair // heads, pair % heads
    q += batch * q_strides[0] + head * q_strides[1]
    k += batch * k_strides[0] + head * k_strides[1]
    v += batch * v_strides[0] + head * v_strides[1]
    if BIAS:
        bias += batch * b_strides[0] + head * b_strides[1]
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dims = tl.arange(0, BLOCK_DIM)
    q_tile = load_tile(q, rows, dims, q_strides[2], q_strides[3], seq_q, DIM)
    total = tl.zeros((BLOCK,), tl.float32)
    highest = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, seq_k, BLOCK):  # first the maximum and the sum of each row
        cols = start + tl.arange(0, BLOCK)
        k_tile = load_tile(k, cols, dims, k_strides[2], k_strides[3], seq_k, DIM)
        s = scores(q_tile, k_tile, bias, rows, cols, seq_q, seq_k, b_strides[2], b_strides[3], scale, CAUSAL, BIAS)
        new_highest = tl.maximum(highest, tl.max(s, axis=1))
        safe = tl.where(new_highest == float("-inf"), 0.0, new_highest)
        total = total * tl.exp(highest - safe) + tl.sum(tl.exp(s - safe[:, None]), axis=1)
        highest = new_highest
    safe = tl.where(highest == float("-inf"), 0.0, highest)
    acc = tl.zeros((BLOCK, BLOCK_DIM), tl.float32)
    for start in range(0, seq_k, BLOCK):  # then the weighted sum, with the maximum known
        cols = start + tl.arange(0, BLOCK)
        k_tile = load_tile(k, cols, dims, k_strides[2], k_strides[3], seq_k, DIM)
        v_tile = load_tile(v, cols, dims, v_strides[2], v_strides[3], seq_k, DIM)
        s = scores(q_tile, k_tile, bias, rows, cols, seq_q, seq_k, b_strides[2], b_strides[3], scale, CAUSAL, BIAS)
        acc = tl.dot(tl.exp(s - safe[:, None]).to(v_tile.dtype), v_tile, acc)
    none = total == 0.0
    total = tl.where(none, 1.0, total)
    store_tile(o + pair * seq_q * DIM, acc / total[:, None], rows, dims, seq_q, DIM)
    tl.store(lse + pair * seq_q + rows, tl.where(none, float("-inf"), highest + tl.log(total)), mask=rows < seq_q)


@triton.jit
def d_kernel(o, do, dlse, d, g_strides, l_strides, heads, seq_q, DIM: tl.constexpr, BLOCK_DIM: tl.constexpr, BLOCK: tl.constexpr):
    pair = tl.program_id(1)
    do += pair // heads * g_strides[0] + pair % heads * g_strides[1]
    dlse += pair // heads * l_strides[0] + pair % heads * l_strides[1]
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dims = tl.arange(0, BLOCK_DIM)
    out = load_tile(o + pair * seq_q * DIM, rows, dims, DIM, 1, seq_q, DIM).to(tl.float32)
    grad = load_tile(do, rows, dims, g_strides[2], g_strides[3], seq_q, DIM).to(tl.float32)
    value = tl.sum(out * grad, axis=1)
    value -= tl.load(dlse + rows * l_strides[2], mask=rows < seq_q, other=0.0)
    tl.store(d + pair * seq_q + rows, value, mask=rows < seq_q)


@triton.jit
def backward_kernel(
    q, k, v, bias, do, lse, d, dq, dk, dv, db, q_strides, k_strides, v_strides, b_strides, g_strides, db_strides,
    heads, seq_q, seq_k, scale,
    CAUSAL: tl.constexpr, BIAS: tl.constexpr, DIM: tl.constexpr, BLOCK_DIM: tl.constexpr, BLOCK: tl.constexpr,
):
    """One block of keys: dk, dv, and its part of dq and dbias by atomic additions."""
    pair = tl.program_id(1)
    batch, head = pair // heads, pair % heads
    q += batch * q_strides[0] + head * q_strides[1]
    k += batch * k_strides[0] + head * k_strides[1]
    v += batch * v_strides[0] + head * v_strides[1]
    do += batch * g_strides[0] + head * g_strides[1]
    if BIAS:
        bias += batch * b_strides[0] + head * b_strides[1]
        db += batch * db_strides[0] + head * db_strides[1]
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dims = tl.arange(0, BLOCK_DIM)
    k_tile = load_tile(k, cols, dims, k_strides[2], k_strides[3], seq_k, DIM)
    v_tile = load_tile(v, cols, dims, v_strides[2], v_strides[3], seq_k, DIM)
    dk_tile = tl.zeros((BLOCK, BLOCK_DIM), tl.float32)
    dv_tile = tl.zeros((BLOCK, BLOCK_DIM), tl.float32)
    for start in range(0, seq_q, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        q_tile = load_tile(q, rows, dims, q_strides[2], q_strides[3], seq_q, DIM)
        g_tile = load_tile(do, rows, dims, g_strides[2], g_strides[3], seq_q, DIM)
        row_lse = tl.load(lse + pair * seq_q + rows, mask=rows < seq_q, other=0.0)
        row_lse = tl.where(row_lse == float("-inf"), 0.0, row_lse)
        row_d = tl.load(d + pair * seq_q + rows, mask=rows < seq_q, other=0.0)
        s = scores(q_tile, k_tile, bias, rows, cols, seq_q, seq_k, b_strides[2], b_strides[3], scale, CAUSAL, BIAS)
        p = tl.exp(s - row_lse[:, None])
        dv_tile += tl.dot(tl.trans(p).to(g_tile.dtype), g_tile)
        ds = p * (tl.dot(g_tile, tl.trans(v_tile)) - row_d[:, None])
        if BIAS:
            inside = (rows[:, None] < seq_q) & (cols[None, :] < seq_k)
            tl.atomic_add(db + rows[:, None] * db_strides[2] + cols[None, :] * db_strides[3], ds, mask=inside)
        low = ds.to(q_tile.dtype)
        dk_tile += tl.dot(tl.trans(low), q_tile)
        dq_tile = tl.dot(low, k_tile) * scale
        pointers = dq + pair * seq_q * DIM + rows[:, None] * DIM + dims[None, :]
        tl.atomic_add(pointers, dq_tile, mask=(rows[:, None] < seq_q) & (dims[None, :] < DIM))
    store_tile(dk + pair * seq_k * DIM, dk_tile * scale, cols, dims, seq_k, DIM)
    store_tile(dv + pair * seq_k * DIM, dv_tile, cols, dims, seq_k, DIM)


def bias_strides(bias, shape):
    return (0, 0, 0, 0) if bias is None else bias.expand(shape).stride()


class FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, bias):
        batch, heads, seq_q, dim = q.shape
        seq_k = k.shape[2]
        o = torch.empty((batch, heads, seq_q, dim), dtype=q.dtype, device=q.device)
        lse = torch.empty((batch, heads, seq_q), dtype=torch.float32, device=q.device)
        ctx.options = {"CAUSAL": causal, "BIAS": bias is not None, "DIM": dim,
                       "BLOCK_DIM": max(16, triton.next_power_of_2(dim)), "BLOCK": 32 if dim <= 128 else 16}
        ctx.scale = 1.0 / math.sqrt(dim)
        strides = bias_strides(bias, (batch, heads, seq_q, seq_k))
        forward_kernel[(triton.cdiv(seq_q, ctx.options["BLOCK"]), batch * heads)](
            q, k, v, bias, o, lse, q.stride(), k.stride(), v.stride(), strides, heads, seq_q, seq_k, ctx.scale, **ctx.options
        )
        ctx.save_for_backward(q, k, v, bias, o, lse)
        return o, lse

    @staticmethod
    def backward(ctx, do, dlse):
        q, k, v, bias, o, lse = ctx.saved_tensors
        batch, heads, seq_q, dim = q.shape
        seq_k = k.shape[2]
        shape = (batch, heads, seq_q, seq_k)
        d = torch.empty_like(lse)
        dq = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
        dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (k, v))
        db = None if bias is None else torch.zeros(bias.shape, dtype=torch.float32, device=q.device)
        d_kernel[(triton.cdiv(seq_q, ctx.options["BLOCK"]), batch * heads)](
            o, do, dlse, d, do.stride(), dlse.stride(), heads, seq_q, DIM=dim, BLOCK_DIM=ctx.options["BLOCK_DIM"],
            BLOCK=ctx.options["BLOCK"],
        )
        backward_kernel[(triton.cdiv(seq_k, ctx.options["BLOCK"]), batch * heads)](
            q, k, v, bias, do, lse, d, dq, dk, dv, db, q.stride(), k.stride(), v.stride(), bias_strides(bias, shape),
            do.stride(), bias_strides(db, shape), heads, seq_q, seq_k, ctx.scale, **ctx.options,
        )
        return dq.to(q.dtype), dk, dv, None, None if db is None else db.to(bias.dtype)


def flash_attention(q, k, v, causal=False, bias=None, return_lse=False):
    o, lse = FlashAttention.apply(q, k, v, causal, bias)
    return (o, lse) if return_lse else o

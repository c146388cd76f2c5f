"""Exact attention without the score matrix in memory (FlashAttention-2), with its gradient.

S = q·kᵀ / √dim + bias,  P = softmax of S by rows,  o = P·v,  lse[i] = ln Σⱼ e^S[i, j]

Forward (Dao 2023, arXiv:2307.08691, algorithm 1): a program owns a block of queries and walks the keys in blocks,
keeping for each query the maximum and the sum of its scores' exponentials so far (online softmax), by which it rescales
its part of o. Backward (algorithm 2): P comes back from q, k and lse. A program owns a block of keys, walks the
queries, keeps dk and dv in registers and adds each block's dq to a float32 buffer. With D[i] = Σ do[i]·o[i] − dlse[i],

    dv = Pᵀ·do,  dS = P ∘ (do·vᵀ − D),  dk = dSᵀ·q / √dim,  dq = dS·k / √dim,  dbias = dS

Exponentials are powers of two, with log2(e) and 1/√dim folded into one factor. Blocks above the causal diagonal are
skipped; only blocks on the diagonal or over the end of the keys are masked. On Hopper and later, where the strides
allow it, the copy engine fetches the blocks (TMA); any other strides or device go through pointers.

FLOPs: forward 4 · batch · heads · seq_q · seq_k · dim, half of it when causal; backward 2.5 times that.
Bytes moved at least: q, k, v, o and lse once. Memory: linear in seq, except for dbias, which is as large as bias.
"""

import math

import torch
import triton
import triton.language as tl

# solution: begin
from torch.autograd.function import once_differentiable
from triton.tools.tensor_descriptor import TensorDescriptor

LOG2_E = tl.constexpr(math.log2(math.e))
LN_2 = tl.constexpr(math.log(2.0))
LARGE_FLOPS = 2**33  # tens of microseconds of work: below, trying configurations costs more than it can save


@triton.jit
def load_rows(source, batch, head, start, end, stride, stride_dim, DIM: tl.constexpr, ROWS: tl.constexpr,
              BLOCK_DIM: tl.constexpr, TMA: tl.constexpr):  # fmt: skip
    """Rows from `start` on of one head, with zeros from row `end` and from dimension DIM on."""
    if TMA:
        x = source.load([batch, head, start, 0]).reshape(ROWS, BLOCK_DIM)
    else:
        rows = start + tl.arange(0, ROWS)[:, None]
        dims = tl.arange(0, BLOCK_DIM)[None, :]
        mask = rows < end
        if DIM != BLOCK_DIM:
            mask = mask & (dims < DIM)
        x = tl.load(source + rows.to(tl.int64) * stride + dims * stride_dim, mask=mask, other=0.0)
    return x


@triton.jit
def store_rows(target, x, start, end, DIM: tl.constexpr, ROWS: tl.constexpr, BLOCK_DIM: tl.constexpr):
    """Store rows of a head that is contiguous."""
    rows = start + tl.arange(0, ROWS)[:, None]
    dims = tl.arange(0, BLOCK_DIM)[None, :]
    pointers = target + rows.to(tl.int64) * DIM + dims
    tl.store(pointers, x.to(target.dtype.element_ty), mask=(rows < end) & (dims < DIM))


@triton.jit
def visible(rows, cols, seq_q, seq_k, CAUSAL: tl.constexpr):
    """Which queries see which keys; the causal diagonal ends in the last query and the last key."""
    mask = cols < seq_k
    if CAUSAL:
        mask = mask & (cols <= rows + (seq_k - seq_q))
    return mask


@triton.jit
def attend(
    o, total, highest, q, k, v, bias, batch, head, rows, first, last, seq_q, seq_k, scale,
    k_row, k_dim, v_row, v_dim, bias_row, bias_col, CAUSAL: tl.constexpr, BIAS: tl.constexpr, MASKED: tl.constexpr,
    DIM: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_DIM: tl.constexpr, PRECISION: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """Let a block of queries attend to keys first…last; scores are in units of log 2."""
    for start in range(first, last, BLOCK_N):
        keys = load_rows(k, batch, head, start, seq_k, k_row, k_dim, DIM, BLOCK_N, BLOCK_DIM, TMA)
        score = tl.dot(q, keys.T, input_precision=PRECISION)
        cols = start + tl.arange(0, BLOCK_N)[None, :]
        if BIAS:
            inside = (rows[:, None] < seq_q) & (cols < seq_k)
            added = tl.load(bias + rows[:, None] * bias_row + cols.to(tl.int64) * bias_col, mask=inside, other=0.0)
            score = score * scale + added.to(tl.float32) * LOG2_E
        if MASKED:
            score = tl.where(visible(rows[:, None], cols, seq_q, seq_k, CAUSAL), score, float("-inf"))
        # Without a bias the scale waits until the subtraction, where it is part of one fused multiply-add.
        factor = 1.0 if BIAS else scale
        new_highest = tl.maximum(highest, tl.max(score, axis=1) * factor)
        # A query that has seen no key yet has no finite maximum: −inf − (−inf) would be NaN.
        reference = tl.where(new_highest == float("-inf"), 0.0, new_highest)
        weight = tl.exp2(score * factor - reference[:, None])
        shrink = tl.exp2(highest - reference)
        total = total * shrink + tl.sum(weight, axis=1)
        values = load_rows(v, batch, head, start, seq_k, v_row, v_dim, DIM, BLOCK_N, BLOCK_DIM, TMA)
        o = tl.dot(weight.to(values.dtype), values, o * shrink[:, None], input_precision=PRECISION)
        highest = new_highest
    return o, total, highest


@triton.jit
def forward_kernel(
    q, k, v, bias, o, lse, heads, seq_q, seq_k, scale, q_batch, q_head, q_row, q_dim, k_batch, k_head, k_row, k_dim,
    v_batch, v_head, v_row, v_dim, bias_batch, bias_head, bias_row, bias_col,
    CAUSAL: tl.constexpr, BIAS: tl.constexpr, DIM: tl.constexpr, BLOCK_DIM: tl.constexpr, PRECISION: tl.constexpr,
    TMA: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Output and log-sum-exp of one block of queries of one head."""
    blocks = tl.cdiv(seq_q, BLOCK_M)
    pair = tl.program_id(0) // blocks
    # Under a causal mask the last queries see the most keys: start them first, so that no long program runs alone.
    start_m = (blocks - 1 - tl.program_id(0) % blocks) * BLOCK_M
    batch, head = pair // heads, pair % heads
    # int64: a head's offset may pass 2³¹.
    wide_batch, wide_head = batch.to(tl.int64), head.to(tl.int64)
    if not TMA:
        q += wide_batch * q_batch + wide_head * q_head
        k += wide_batch * k_batch + wide_head * k_head
        v += wide_batch * v_batch + wide_head * v_head
    if BIAS:
        bias += wide_batch * bias_batch + wide_head * bias_head
    rows = start_m + tl.arange(0, BLOCK_M)
    last = seq_k
    unmasked = seq_k
    if CAUSAL:
        last = tl.minimum(seq_k, start_m + BLOCK_M + seq_k - seq_q)
        unmasked = tl.maximum(tl.minimum(seq_k, start_m + 1 + seq_k - seq_q), 0)
    unmasked = unmasked // BLOCK_N * BLOCK_N
    queries = load_rows(q, batch, head, start_m, seq_q, q_row, q_dim, DIM, BLOCK_M, BLOCK_DIM, TMA)
    out = tl.zeros((BLOCK_M, BLOCK_DIM), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    highest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    out, total, highest = attend(
        out, total, highest, queries, k, v, bias, batch, head, rows.to(tl.int64), 0, unmasked, seq_q, seq_k, scale,
        k_row, k_dim, v_row, v_dim, bias_row, bias_col, CAUSAL, BIAS, False, DIM, BLOCK_N, BLOCK_DIM, PRECISION, TMA,
    )  # fmt: skip
    out, total, highest = attend(
        out, total, highest, queries, k, v, bias, batch, head, rows.to(tl.int64), unmasked, last, seq_q, seq_k, scale,
        k_row, k_dim, v_row, v_dim, bias_row, bias_col, CAUSAL, BIAS, True, DIM, BLOCK_N, BLOCK_DIM, PRECISION, TMA,
    )  # fmt: skip
    # A query that sees no key: o = 0 and lse = −inf + log2(1) = −inf.
    total = tl.where(total == 0.0, 1.0, total)
    tl.store(lse + pair.to(tl.int64) * seq_q + rows, (highest + tl.log2(total)) * LN_2, mask=rows < seq_q)
    store_rows(o + pair.to(tl.int64) * seq_q * DIM, out / total[:, None], start_m, seq_q, DIM, BLOCK_M, BLOCK_DIM)


@triton.jit
def prepare_kernel(
    o, do, lse, dlse, shift, d, heads, seq_q, do_batch, do_head, do_row, do_dim, dlse_batch, dlse_head, dlse_row,
    DIM: tl.constexpr, BLOCK_DIM: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """D of each query, and lse in units of log 2, with +inf, which makes P = 0, for queries that see no key."""
    blocks = tl.cdiv(seq_q, BLOCK_M)
    pair = (tl.program_id(0) // blocks).to(tl.int64)
    start = tl.program_id(0) % blocks * BLOCK_M
    batch, head = pair // heads, pair % heads
    o += pair * seq_q * DIM
    do += batch * do_batch + head * do_head
    out = load_rows(o, 0, 0, start, seq_q, DIM, 1, DIM, BLOCK_M, BLOCK_DIM, False).to(tl.float32)
    grad = load_rows(do, 0, 0, start, seq_q, do_row, do_dim, DIM, BLOCK_M, BLOCK_DIM, False).to(tl.float32)
    rows = start + tl.arange(0, BLOCK_M)
    mask = rows < seq_q
    from_lse = tl.load(dlse + batch * dlse_batch + head * dlse_head + rows.to(tl.int64) * dlse_row, mask=mask, other=0.0)
    tl.store(d + pair * seq_q + rows, tl.sum(out * grad, axis=1) - from_lse, mask=mask)
    value = tl.load(lse + pair * seq_q + rows, mask=mask, other=0.0)
    tl.store(shift + pair * seq_q + rows, tl.where(value == float("-inf"), float("inf"), value * LOG2_E), mask=mask)


@triton.jit
def collect(
    dk, dv, keys, values, q, do, shift, d, bias, dq, dbias, batch, head, pair, start_n, first, last, seq_q, seq_k,
    scale, dim_scale, q_row, q_dim, do_row, do_dim, bias_row, bias_col, dbias_row, dbias_col,
    CAUSAL: tl.constexpr, BIAS: tl.constexpr, DBIAS: tl.constexpr, MASKED: tl.constexpr, DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_DIM: tl.constexpr, PRECISION: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """Add what queries first…last contribute to dk and dv of a block of keys, and their dq; scores lie transposed."""
    for start in range(first, last, BLOCK_M):
        queries = load_rows(q, batch, head, start, seq_q, q_row, q_dim, DIM, BLOCK_M, BLOCK_DIM, TMA)
        rows = start + tl.arange(0, BLOCK_M)[None, :]
        cols = start_n + tl.arange(0, BLOCK_N)[:, None]
        score = tl.dot(keys, queries.T, input_precision=PRECISION) * scale
        if BIAS:
            inside = (rows < seq_q) & (cols < seq_k)
            added = tl.load(
                bias + rows.to(tl.int64) * bias_row + cols.to(tl.int64) * bias_col, mask=inside, other=0.0
            )  # fmt: skip
            score += added.to(tl.float32) * LOG2_E
        if MASKED:
            score = tl.where(visible(rows, cols, seq_q, seq_k, CAUSAL), score, float("-inf"))
        weight = tl.exp2(score - tl.load(shift + rows, mask=rows < seq_q, other=float("inf")))
        grad = load_rows(do, batch, head, start, seq_q, do_row, do_dim, DIM, BLOCK_M, BLOCK_DIM, TMA)
        dv = tl.dot(weight.to(grad.dtype), grad, dv, input_precision=PRECISION)
        dweight = tl.dot(values, grad.T, input_precision=PRECISION)
        dscore = weight * (dweight - tl.load(d + rows, mask=rows < seq_q, other=0.0))
        if DBIAS:
            # Where the bias was broadcast, several programs and lanes add to one element.
            pointers = dbias + rows.to(tl.int64) * dbias_row + cols.to(tl.int64) * dbias_col
            tl.atomic_add(pointers, dscore, mask=(rows < seq_q) & (cols < seq_k), sem="relaxed")
        dscore = dscore.to(queries.dtype)
        dk = tl.dot(dscore, queries, dk, input_precision=PRECISION)
        part = tl.dot(dscore.T, keys, input_precision=PRECISION) * dim_scale
        if TMA:
            dq.atomic_add([batch, head, start, 0], part.reshape(1, 1, BLOCK_M, BLOCK_DIM))
        else:
            rows = start + tl.arange(0, BLOCK_M)[:, None]
            dims = tl.arange(0, BLOCK_DIM)[None, :]
            pointers = dq + (pair.to(tl.int64) * seq_q + rows) * DIM + dims
            tl.atomic_add(pointers, part, mask=(rows < seq_q) & (dims < DIM), sem="relaxed")
    return dk, dv


@triton.jit
def backward_kernel(
    q, k, v, bias, do, shift, d, dq, dk, dv, dbias, heads, seq_q, seq_k, scale, dim_scale,
    q_batch, q_head, q_row, q_dim, k_batch, k_head, k_row, k_dim, v_batch, v_head, v_row, v_dim,
    do_batch, do_head, do_row, do_dim, bias_batch, bias_head, bias_row, bias_col,
    dbias_batch, dbias_head, dbias_row, dbias_col,
    CAUSAL: tl.constexpr, BIAS: tl.constexpr, DBIAS: tl.constexpr, DIM: tl.constexpr, BLOCK_DIM: tl.constexpr,
    PRECISION: tl.constexpr, TMA: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Store dk and dv of one block of keys of one head, and add its part of dq and dbias."""
    blocks = tl.cdiv(seq_k, BLOCK_N)
    pair = tl.program_id(0) // blocks
    start_n = tl.program_id(0) % blocks * BLOCK_N
    batch, head = pair // heads, pair % heads
    wide_batch, wide_head = batch.to(tl.int64), head.to(tl.int64)
    if not TMA:
        q += wide_batch * q_batch + wide_head * q_head
        k += wide_batch * k_batch + wide_head * k_head
        v += wide_batch * v_batch + wide_head * v_head
        do += wide_batch * do_batch + wide_head * do_head
    if BIAS:
        bias += wide_batch * bias_batch + wide_head * bias_head
    if DBIAS:
        dbias += wide_batch * dbias_batch + wide_head * dbias_head
    shift += pair.to(tl.int64) * seq_q
    d += pair.to(tl.int64) * seq_q
    keys = load_rows(k, batch, head, start_n, seq_k, k_row, k_dim, DIM, BLOCK_N, BLOCK_DIM, TMA)
    values = load_rows(v, batch, head, start_n, seq_k, v_row, v_dim, DIM, BLOCK_N, BLOCK_DIM, TMA)
    # Queries before `first` see no key of the block; from `unmasked` on they see all of them.
    first = 0
    unmasked = 0
    if CAUSAL:
        first = tl.maximum(start_n - (seq_k - seq_q), 0) // BLOCK_M * BLOCK_M
        unmasked = tl.cdiv(tl.maximum(start_n + BLOCK_N - 1 - (seq_k - seq_q), 0), BLOCK_M) * BLOCK_M
    unmasked = tl.where(start_n + BLOCK_N > seq_k, seq_q, tl.minimum(unmasked, seq_q))
    grad_k = tl.zeros((BLOCK_N, BLOCK_DIM), tl.float32)
    grad_v = tl.zeros((BLOCK_N, BLOCK_DIM), tl.float32)
    grad_k, grad_v = collect(
        grad_k, grad_v, keys, values, q, do, shift, d, bias, dq, dbias, batch, head, pair, start_n, first, unmasked,
        seq_q, seq_k, scale, dim_scale, q_row, q_dim, do_row, do_dim, bias_row, bias_col, dbias_row, dbias_col,
        CAUSAL, BIAS, DBIAS, True, DIM, BLOCK_M, BLOCK_N, BLOCK_DIM, PRECISION, TMA,
    )  # fmt: skip
    grad_k, grad_v = collect(
        grad_k, grad_v, keys, values, q, do, shift, d, bias, dq, dbias, batch, head, pair, start_n, unmasked, seq_q,
        seq_q, seq_k, scale, dim_scale, q_row, q_dim, do_row, do_dim, bias_row, bias_col, dbias_row, dbias_col,
        CAUSAL, BIAS, DBIAS, False, DIM, BLOCK_M, BLOCK_N, BLOCK_DIM, PRECISION, TMA,
    )  # fmt: skip
    at = pair.to(tl.int64) * seq_k * DIM
    store_rows(dk + at, grad_k * dim_scale, start_n, seq_k, DIM, BLOCK_N, BLOCK_DIM)
    store_rows(dv + at, grad_v, start_n, seq_k, DIM, BLOCK_N, BLOCK_DIM)


def before_launch(arguments: dict) -> None:
    """Give the descriptors the block shapes of the configuration about to run, and clear what it adds to."""
    for name, rows in (("q", "BLOCK_M"), ("k", "BLOCK_N"), ("v", "BLOCK_N"), ("do", "BLOCK_M"), ("dq", "BLOCK_M")):
        if arguments["TMA"] and name in arguments:
            arguments[name].block_shape = [1, 1, arguments[rows], arguments["BLOCK_DIM"]]
    for name in ("dq", "dbias"):
        if arguments.get(name) is not None:
            getattr(arguments[name], "base", arguments[name]).zero_()


def config(block_m: int, block_n: int, warps: int, stages: int, maxnreg: int | None = None) -> triton.Config:
    """Return one configuration to try."""
    blocks = {"BLOCK_M": block_m, "BLOCK_N": block_n}
    return triton.Config(blocks, num_warps=warps, num_stages=stages, maxnreg=maxnreg, pre_hook=before_launch)


def for_dim(configs: list[triton.Config], named_args: dict, **kwargs) -> list[triton.Config]:
    """Keep the configurations that suit the row length: long rows need small blocks."""
    bytes_per_row = kwargs["BLOCK_DIM"] * (4 if kwargs["PRECISION"] != "tf32" else 2)
    limit = 64 * 1024 if bytes_per_row <= 256 else 32 * 1024
    kept = [c for c in configs if c.kwargs["BLOCK_M"] * c.kwargs["BLOCK_N"] * bytes_per_row <= 128 * limit / 2]
    return kept or configs[-1:]


KEY = ["seq_q", "seq_k", "DIM", "CAUSAL", "BIAS", "TMA"]
forward_tuned = triton.autotune(
    [config(128, 128, 8, 2), config(128, 64, 8, 3), config(128, 64, 4, 2), config(64, 64, 4, 2)], key=KEY
)(forward_kernel)
backward_tuned = triton.autotune([config(64, 128, 8, 2), config(64, 64, 4, 2)], key=KEY)(backward_kernel)


def launch(kernel, tuned, rows: int, block: str, flops: int, arguments: dict) -> None:
    """Run a kernel over rows / block programs a head, with the best of its configurations where that can pay."""
    q = arguments["dq"] if "dq" in arguments else arguments["q"]
    q = getattr(q, "base", q)
    pairs = q.shape[0] * q.shape[1]
    if q.is_cuda and flops >= LARGE_FLOPS:
        tuned[lambda meta: (pairs * triton.cdiv(rows, meta[block]),)](**arguments)
        return
    widest = 64 if arguments["BLOCK_DIM"] * (1 if arguments["PRECISION"] == "tf32" else 2) <= 128 else 32
    blocks = {
        "BLOCK_M": min(max(16, triton.next_power_of_2(arguments["seq_q"])), widest),
        "BLOCK_N": min(max(16, triton.next_power_of_2(arguments["seq_k"])), widest),
    }
    before_launch(arguments | blocks)
    warps = 4 if arguments["BLOCK_DIM"] <= 128 else 8
    kernel[(pairs * triton.cdiv(rows, blocks[block]),)](**arguments, **blocks, num_warps=warps, num_stages=2)


def has_tma(x: torch.Tensor) -> bool:
    """Tell whether the copy engine can read x: rows in one piece, everything at multiples of 16 bytes."""
    if not x.is_cuda or torch.cuda.get_device_capability(x.device)[0] < 9 or x.element_size() != 2:
        return False
    steps = [stride for size, stride in zip(x.shape[:-1], x.stride()[:-1], strict=True) if size > 1]
    return x.data_ptr() % 16 == 0 and x.stride(-1) == 1 and all(step > 0 and step % 8 == 0 for step in steps)


def described(x: torch.Tensor) -> TensorDescriptor:
    """Describe x to the copy engine; before_launch sets the block shape."""
    strides = [stride if size > 1 else 16 for size, stride in zip(x.shape[:-1], x.stride()[:-1], strict=True)]
    return TensorDescriptor(x, list(x.shape), [*strides, 1], [1, 1, 1, 16])


def strides_of(**tensors: torch.Tensor | None) -> dict:
    """Return the strides of 4-dimensional tensors by the kernels' names."""
    names = {name: ("batch", "head", "row", "col" if "bias" in name else "dim") for name in tensors}
    return {
        f"{name}_{names[name][i]}": 0 if x is None else x.stride(i) for name, x in tensors.items() for i in range(4)
    }  # fmt: skip


class FlashAttention(torch.autograd.Function):
    """o and lse of attention; arguments of `apply`: q, k, v, causal, bias."""

    @staticmethod
    def forward(ctx, q, k, v, causal, bias):
        """Save the inputs, o and lse; the backward recomputes the scores."""
        batch, heads, seq_q, dim = q.shape
        seq_k = k.shape[2]
        o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
        full_bias = None if bias is None else bias.expand(batch, heads, seq_q, seq_k)
        ctx.shared = {
            "heads": heads, "seq_q": seq_q, "seq_k": seq_k, "scale": math.log2(math.e) / math.sqrt(dim),
            "CAUSAL": causal, "BIAS": bias is not None, "DIM": dim, "BLOCK_DIM": max(16, triton.next_power_of_2(dim)),
            "PRECISION": "tf32x3" if q.dtype == torch.float32 else "tf32",
        }  # fmt: skip
        ctx.flops = 4 * batch * heads * seq_q * seq_k * dim
        tma = all(has_tma(x) for x in (q, k, v))
        tensors = {name: described(x) if tma else x for name, x in (("q", q), ("k", k), ("v", v))}
        arguments = tensors | {"bias": full_bias, "o": o, "lse": lse, "TMA": tma} | ctx.shared
        arguments |= strides_of(q=q, k=k, v=v, bias=full_bias)
        if o.numel():
            launch(forward_kernel, forward_tuned, seq_q, "BLOCK_M", ctx.flops, arguments)
        ctx.save_for_backward(q, k, v, bias, o, lse)
        return o, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, do, dlse):
        """Return the gradients of q, k, v and bias."""
        q, k, v, bias, o, lse = ctx.saved_tensors
        batch, heads, seq_q, dim = q.shape
        needs_dbias = bias is not None and ctx.needs_input_grad[4]
        dq = torch.empty(q.shape, dtype=torch.float32, device=q.device)
        dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (k, v))
        dbias = torch.empty(bias.shape, dtype=torch.float32, device=q.device) if needs_dbias else None
        full_bias, full_dbias = (
            None if x is None else x.expand(batch, heads, seq_q, k.shape[2]) for x in (bias, dbias)
        )  # fmt: skip
        shift, d = torch.empty_like(lse), torch.empty_like(lse)
        prepare_kernel[(batch * heads * triton.cdiv(seq_q, 64),)](
            o, do, lse, dlse, shift, d, heads, seq_q, *do.stride(), *dlse.stride(),
            DIM=dim, BLOCK_DIM=ctx.shared["BLOCK_DIM"], BLOCK_M=64,
        )  # fmt: skip
        tma = dim % 4 == 0 and all(has_tma(x) for x in (q, k, v, do))
        tensors = {name: described(x) if tma else x for name, x in (("q", q), ("k", k), ("v", v), ("do", do), ("dq", dq))}
        arguments = tensors | {"bias": full_bias, "shift": shift, "d": d, "dk": dk, "dv": dv, "dbias": dbias}
        arguments |= ctx.shared | {"dim_scale": 1.0 / math.sqrt(dim), "DBIAS": needs_dbias, "TMA": tma}
        arguments |= strides_of(q=q, k=k, v=v, do=do, bias=full_bias, dbias=full_dbias)
        launch(backward_kernel, backward_tuned, k.shape[2], "BLOCK_N", 5 * ctx.flops // 2, arguments)
        return dq.to(q.dtype), dk, dv, None, None if dbias is None else dbias.to(bias.dtype)


# solution: end


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    bias: torch.Tensor | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Return softmax(q·kᵀ / √dim + bias)·v and, on request, lse = ln Σⱼ exp of the scores; differentiable.

    q: (batch, heads, seq_q, dim), k and v: (batch, heads, seq_k, dim), any strides, one dtype of float32, float16 and
    bfloat16. bias: broadcastable to (batch, heads, seq_q, seq_k). causal: query i sees keys j ≤ i + seq_k − seq_q.
    A query that sees no key has o = 0 and lse = −∞.
    Result: o like q, a new tensor; lse (batch, heads, seq_q) in float32.
    """
    # solution: begin
    o, lse = FlashAttention.apply(q, k, v, causal, bias)
    return (o, lse) if return_lse else o
    # solution: end

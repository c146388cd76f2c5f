# solution: begin
"""Exact attention without the score matrix in memory (FlashAttention-2), with its gradient.

S = q·kᵀ / √dim + bias,  P = softmax of S by rows,  o = P·v,  lse[i] = ln Σⱼ e^S[i, j]

Forward (Dao 2023, arXiv:2307.08691, algorithm 1): a program owns a block of queries and walks the keys in blocks,
keeping for each query the maximum and the sum of its scores' exponentials so far (online softmax), by which it rescales
its part of o. Backward (algorithm 2): P comes back from q, k and lse. With D[i] = Σ do[i]·o[i] − dlse[i],

    dv = Pᵀ·do,  dS = P ∘ (do·vᵀ − D),  dk = dSᵀ·q / √dim,  dq = dS·k / √dim,  dbias = dS

One kernel walks the keys for dq, another the queries for dk, dv and dbias. That computes S and do·vᵀ twice, but on an
H200 it took less time than one kernel with atomic additions to dq, and dq, dk and dv have the same bits every time.
Only dbias is added up atomically, because broadcast biases collect from many programs.

Exponentials are powers of two, with log2(e) and 1/√dim folded into one factor. Blocks above the causal diagonal are
skipped; only blocks on the diagonal or over the end of the keys are masked. On Hopper and later, where the strides
allow it, the copy engine fetches the blocks (TMA); any other strides or device go through pointers.

FLOPs: forward 4 · batch · heads · seq_q · seq_k · dim, half of it when causal; backward 2.5 times that, computed as
3.5. Bytes moved at least: q, k, v, o and lse once. Memory: linear in seq, but for dbias, which is as large as bias.
"""

#: """Exercise: attention without the score matrix in memory, with its gradients."""
# solution: end

import math

import torch
import triton
import triton.language as tl

# solution: begin
from torch.autograd.function import once_differentiable
from triton.tools.tensor_descriptor import TensorDescriptor

LOG2_E = tl.constexpr(math.log2(math.e))
LN_2 = tl.constexpr(math.log(2.0))
LOWEST = tl.constexpr(-3e38)  # maximum of no scores: finite, because −inf − (−inf) would be NaN
LARGE_FLOPS = 2**33  # tens of microseconds of work: below, trying configurations costs more than it can save


@triton.jit
def head_of(x, strides, pair, heads, end, TMA: tl.constexpr):
    """What load_rows needs to know of one head: pointer or descriptor, head, rows, strides."""
    batch, head = pair // heads, pair % heads
    if not TMA:
        x += batch * strides[0] + head * strides[1]
    return x, batch.to(tl.int32), head.to(tl.int32), end, strides[2], strides[3]


@triton.jit
def load_rows(source, start, DIM: tl.constexpr, ROWS: tl.constexpr, BLOCK_DIM: tl.constexpr, TMA: tl.constexpr):
    """Rows from `start` on of one head, with zeros beyond its last row and from dimension DIM on."""
    tensor, batch, head, end, stride, stride_dim = source
    if TMA:
        x = tensor.load([batch, head, start, 0]).reshape(ROWS, BLOCK_DIM)
    else:
        rows = start + tl.arange(0, ROWS)[:, None]
        dims = tl.arange(0, BLOCK_DIM)[None, :]
        mask = rows < end
        if DIM != BLOCK_DIM:
            mask = mask & (dims < DIM)
        x = tl.load(tensor + rows.to(tl.int64) * stride + dims * stride_dim, mask=mask, other=0.0)
    return x


@triton.jit
def store_rows(target, x, start, end, DIM: tl.constexpr, ROWS: tl.constexpr, BLOCK_DIM: tl.constexpr):
    """Store rows of a head that is contiguous."""
    rows = start + tl.arange(0, ROWS)[:, None]
    dims = tl.arange(0, BLOCK_DIM)[None, :]
    tl.store(target + rows.to(tl.int64) * DIM + dims, x.to(target.dtype.element_ty), mask=(rows < end) & (dims < DIM))


@triton.jit
def bias_at(bias, strides, pair, heads, rows, cols):
    """Pointers to a block of the bias or its gradient; rows and cols broadcast to the block."""
    bias += pair // heads * strides[0] + pair % heads * strides[1]
    return bias + rows.to(tl.int64) * strides[2] + cols.to(tl.int64) * strides[3]


@triton.jit
def add_bias(score, pointers, rows, cols, seq_q, seq_k):
    """Add a block of the bias to scores in units of log 2."""
    return score + tl.load(pointers, mask=(rows < seq_q) & (cols < seq_k), other=0.0).to(tl.float32) * LOG2_E


@triton.jit
def hide(score, rows, cols, seq_q, seq_k, CAUSAL: tl.constexpr):
    """Set scores of keys that a query must not see to −inf; the causal diagonal joins the last query and last key."""
    seen = cols < seq_k
    if CAUSAL:
        seen = seen & (cols <= rows + (seq_k - seq_q))
    return tl.where(seen, score, float("-inf"))


@triton.jit
def key_range(start_m, seq_q, seq_k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    """All queries of a block see the keys before `whole`, at a block's edge; none sees those from `last` on."""
    whole, last = seq_k, seq_k
    if CAUSAL:
        whole = tl.maximum(tl.minimum(seq_k, start_m + 1 + seq_k - seq_q), 0)
        last = tl.minimum(seq_k, start_m + BLOCK_M + seq_k - seq_q)
    return whole // BLOCK_N * BLOCK_N, last


@triton.jit
def forward_kernel(
    q, k, v, bias, q_strides, k_strides, v_strides, bias_strides, o, lse, heads, seq_q, seq_k, scale,
    CAUSAL: tl.constexpr, BIAS: tl.constexpr, DIM: tl.constexpr, BLOCK_DIM: tl.constexpr, PRECISION: tl.constexpr,
    TMA: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, AHEAD: tl.constexpr = False,
):  # fmt: skip
    """Output and log-sum-exp of one block of queries of one head.

    AHEAD shifts the products by one block each way: an iteration starts with the weights of the block before and with
    its own scores, so that the tensor cores compute the next block's scores while the others compute exponentials.
    """
    blocks = tl.cdiv(seq_q, BLOCK_M)
    pair = (tl.program_id(0) // blocks).to(tl.int64)  # int64: a head's offset may pass 2³¹
    # Under a causal mask the last queries see the most keys: start them first, so that no long program runs alone.
    start_m = (blocks - 1 - tl.program_id(0) % blocks) * BLOCK_M
    k_source = head_of(k, k_strides, pair, heads, seq_k, TMA)
    v_source = head_of(v, v_strides, pair, heads, seq_k, TMA)
    queries = load_rows(head_of(q, q_strides, pair, heads, seq_q, TMA), start_m, DIM, BLOCK_M, BLOCK_DIM, TMA)
    rows = start_m + tl.arange(0, BLOCK_M)[:, None]
    out = tl.zeros((BLOCK_M, BLOCK_DIM), tl.float32)
    total = tl.zeros((BLOCK_M, 1), tl.float32)
    highest = tl.full((BLOCK_M, 1), LOWEST, tl.float32)
    score = tl.full((BLOCK_M, BLOCK_N), float("-inf"), tl.float32)
    weight = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    whole, last = key_range(start_m, seq_q, seq_k, BLOCK_M, BLOCK_N, CAUSAL)
    first = 0
    if AHEAD:
        # One block early, with no scores and no weights, to compute the scores of block 0: a product before the loop
        # would take shared memory of its own. The copy engine fills rows before 0 and from seq_k on with zeros.
        first = -BLOCK_N
    for MASKED in tl.static_range(2):
        for start in range(whole if MASKED else first, last if MASKED else whole, BLOCK_N):
            if AHEAD:
                values = load_rows(v_source, start - BLOCK_N, DIM, BLOCK_N, BLOCK_DIM, TMA)
                out = tl.dot(weight.to(values.dtype), values, out, input_precision=PRECISION)
            else:
                keys = load_rows(k_source, start, DIM, BLOCK_N, BLOCK_DIM, TMA)
                score = tl.dot(queries, keys.T, input_precision=PRECISION)
            cols = start + tl.arange(0, BLOCK_N)[None, :]
            # Without a bias the scale waits until the subtraction, where it is part of one fused multiply-add.
            factor = scale
            if BIAS:
                pointers = bias_at(bias, bias_strides, pair, heads, rows, cols)
                score = add_bias(score * scale, pointers, rows, cols, seq_q, seq_k)
                factor = 1.0
            if MASKED:
                score = hide(score, rows, cols, seq_q, seq_k, CAUSAL)
            new_highest = tl.maximum(highest, tl.max(score, axis=1, keep_dims=True) * factor)
            exponent = score * factor - new_highest
            shrink = tl.exp2(highest - new_highest)
            out = out * shrink
            if AHEAD:
                keys = load_rows(k_source, start + BLOCK_N, DIM, BLOCK_N, BLOCK_DIM, TMA)
                score = tl.dot(queries, keys.T, input_precision=PRECISION)
            weight = tl.exp2(exponent)
            total = total * shrink + tl.sum(weight, axis=1, keep_dims=True)
            highest = new_highest
            if not AHEAD:
                values = load_rows(v_source, start, DIM, BLOCK_N, BLOCK_DIM, TMA)
                out = tl.dot(weight.to(values.dtype), values, out, input_precision=PRECISION)
    if AHEAD:
        end = tl.maximum(tl.cdiv(last, BLOCK_N) * BLOCK_N, whole)
        values = load_rows(v_source, end - BLOCK_N, DIM, BLOCK_N, BLOCK_DIM, TMA)
        out = tl.dot(weight.to(values.dtype), values, out, input_precision=PRECISION)
    # A query that sees no key: o = 0 and lse = −inf.
    none = total == 0.0
    total = tl.where(none, 1.0, total)
    value = tl.where(none, float("-inf"), (highest + tl.log2(total)) * LN_2)
    tl.store(lse + pair * seq_q + rows, value, mask=rows < seq_q)
    store_rows(o + pair * seq_q * DIM, out / total, start_m, seq_q, DIM, BLOCK_M, BLOCK_DIM)


@triton.jit
def dq_kernel(
    q, k, v, do, bias, q_strides, k_strides, v_strides, do_strides, bias_strides, dlse_strides,
    o, lse, dlse, shift, d, dq, heads, seq_q, seq_k, scale, dim_scale,
    CAUSAL: tl.constexpr, BIAS: tl.constexpr, DIM: tl.constexpr, BLOCK_DIM: tl.constexpr, PRECISION: tl.constexpr,
    TMA: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Gradient of one block of queries of one head; also stores, for dkdv_kernel, D and the shift of its scores.

    The shift is lse in units of log 2, and +inf, which makes P = 0, for queries that see no key.
    """
    blocks = tl.cdiv(seq_q, BLOCK_M)
    pair = (tl.program_id(0) // blocks).to(tl.int64)
    start_m = (blocks - 1 - tl.program_id(0) % blocks) * BLOCK_M
    rows = start_m + tl.arange(0, BLOCK_M)[:, None]
    queries = load_rows(head_of(q, q_strides, pair, heads, seq_q, TMA), start_m, DIM, BLOCK_M, BLOCK_DIM, TMA)
    grad = load_rows(head_of(do, do_strides, pair, heads, seq_q, TMA), start_m, DIM, BLOCK_M, BLOCK_DIM, TMA)
    out = load_rows((o + pair * seq_q * DIM, 0, 0, seq_q, DIM, 1), start_m, DIM, BLOCK_M, BLOCK_DIM, False)
    dlse += pair // heads * dlse_strides[0] + pair % heads * dlse_strides[1]
    row_d = tl.sum(out.to(tl.float32) * grad.to(tl.float32), axis=1, keep_dims=True)
    row_d -= tl.load(dlse + rows.to(tl.int64) * dlse_strides[2], mask=rows < seq_q, other=0.0)
    row_shift = tl.load(lse + pair * seq_q + rows, mask=rows < seq_q, other=float("-inf")) * LOG2_E
    row_shift = tl.where(row_shift == float("-inf"), float("inf"), row_shift)
    tl.store(d + pair * seq_q + rows, row_d, mask=rows < seq_q)
    tl.store(shift + pair * seq_q + rows, row_shift, mask=rows < seq_q)
    k_source = head_of(k, k_strides, pair, heads, seq_k, TMA)
    v_source = head_of(v, v_strides, pair, heads, seq_k, TMA)
    grad_q = tl.zeros((BLOCK_M, BLOCK_DIM), tl.float32)
    whole, last = key_range(start_m, seq_q, seq_k, BLOCK_M, BLOCK_N, CAUSAL)
    for MASKED in tl.static_range(2):
        for start in range(whole if MASKED else 0, last if MASKED else whole, BLOCK_N):
            keys = load_rows(k_source, start, DIM, BLOCK_N, BLOCK_DIM, TMA)
            values = load_rows(v_source, start, DIM, BLOCK_N, BLOCK_DIM, TMA)
            cols = start + tl.arange(0, BLOCK_N)[None, :]
            score = tl.dot(queries, keys.T, input_precision=PRECISION) * scale
            dweight = tl.dot(grad, values.T, input_precision=PRECISION)
            if BIAS:
                score = add_bias(score, bias_at(bias, bias_strides, pair, heads, rows, cols), rows, cols, seq_q, seq_k)
            if MASKED:
                score = hide(score, rows, cols, seq_q, seq_k, CAUSAL)
            dscore = tl.exp2(score - row_shift) * (dweight - row_d)
            grad_q = tl.dot(dscore.to(keys.dtype), keys, grad_q, input_precision=PRECISION)
    store_rows(dq + pair * seq_q * DIM, grad_q * dim_scale, start_m, seq_q, DIM, BLOCK_M, BLOCK_DIM)


@triton.jit
def dkdv_kernel(
    q, k, v, do, bias, dbias, q_strides, k_strides, v_strides, do_strides, bias_strides, dbias_strides,
    shift, d, dk, dv, heads, seq_q, seq_k, scale, dim_scale,
    CAUSAL: tl.constexpr, BIAS: tl.constexpr, DBIAS: tl.constexpr, DIM: tl.constexpr, BLOCK_DIM: tl.constexpr,
    PRECISION: tl.constexpr, TMA: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Gradients of one block of keys and values of one head, and its part of dbias; scores lie transposed."""
    blocks = tl.cdiv(seq_k, BLOCK_N)
    pair = (tl.program_id(0) // blocks).to(tl.int64)
    start_n = tl.program_id(0) % blocks * BLOCK_N
    q_source = head_of(q, q_strides, pair, heads, seq_q, TMA)
    do_source = head_of(do, do_strides, pair, heads, seq_q, TMA)
    keys = load_rows(head_of(k, k_strides, pair, heads, seq_k, TMA), start_n, DIM, BLOCK_N, BLOCK_DIM, TMA)
    values = load_rows(head_of(v, v_strides, pair, heads, seq_k, TMA), start_n, DIM, BLOCK_N, BLOCK_DIM, TMA)
    shift += pair * seq_q
    d += pair * seq_q
    # Queries before `first` see no key of the block; from `whole` on they see all of them.
    first, whole = 0, 0
    if CAUSAL:
        first = tl.maximum(start_n - (seq_k - seq_q), 0) // BLOCK_M * BLOCK_M
        whole = tl.cdiv(tl.maximum(start_n + BLOCK_N - 1 - (seq_k - seq_q), 0), BLOCK_M) * BLOCK_M
    whole = tl.where(start_n + BLOCK_N > seq_k, seq_q, tl.minimum(whole, seq_q))
    cols = start_n + tl.arange(0, BLOCK_N)[:, None]
    grad_k = tl.zeros((BLOCK_N, BLOCK_DIM), tl.float32)
    grad_v = tl.zeros((BLOCK_N, BLOCK_DIM), tl.float32)
    for UNMASKED in tl.static_range(2):
        for start in range(whole if UNMASKED else first, seq_q if UNMASKED else whole, BLOCK_M):
            queries = load_rows(q_source, start, DIM, BLOCK_M, BLOCK_DIM, TMA)
            rows = start + tl.arange(0, BLOCK_M)[None, :]
            score = tl.dot(keys, queries.T, input_precision=PRECISION) * scale
            if BIAS:
                score = add_bias(score, bias_at(bias, bias_strides, pair, heads, rows, cols), rows, cols, seq_q, seq_k)
            if not UNMASKED:
                score = hide(score, rows, cols, seq_q, seq_k, CAUSAL)
            weight = tl.exp2(score - tl.load(shift + rows, mask=rows < seq_q, other=float("inf")))
            grad = load_rows(do_source, start, DIM, BLOCK_M, BLOCK_DIM, TMA)
            grad_v = tl.dot(weight.to(grad.dtype), grad, grad_v, input_precision=PRECISION)
            dweight = tl.dot(values, grad.T, input_precision=PRECISION)
            dscore = weight * (dweight - tl.load(d + rows, mask=rows < seq_q, other=0.0))
            if DBIAS:
                # Where the bias was broadcast, several programs and lanes add to one element.
                pointers = bias_at(dbias, dbias_strides, pair, heads, rows, cols)
                tl.atomic_add(pointers, dscore, mask=(rows < seq_q) & (cols < seq_k), sem="relaxed")
            grad_k = tl.dot(dscore.to(queries.dtype), queries, grad_k, input_precision=PRECISION)
    store_rows(dk + pair * seq_k * DIM, grad_k * dim_scale, start_n, seq_k, DIM, BLOCK_N, BLOCK_DIM)
    store_rows(dv + pair * seq_k * DIM, grad_v, start_n, seq_k, DIM, BLOCK_N, BLOCK_DIM)


def block_dim(dim: int) -> int:
    """Return the dimensions of a block: a power of two, but not 32.

    There ptxas 12.8, which Triton 3.6 and 3.7 come with, makes wrong code for Hopper where k and v lie differently:
    it reads the register that says where v's block is before it has written it.
    """
    power = max(16, triton.next_power_of_2(dim))
    return 64 if power == 32 else power


def side(arguments: dict) -> int:
    """Return the side of the largest block whose rows fit the registers; float32 products are three of TF32."""
    width = arguments["BLOCK_DIM"] * (1 if arguments["PRECISION"] == "tf32" else 4)
    return max(16, min(64, 8192 // width))


def before_launch(arguments: dict) -> None:
    """Give the descriptors the block shapes of the configuration about to run, and clear what it adds to."""
    if arguments.get("dbias") is not None:
        arguments["dbias"].zero_()
    for name, rows in (("q", "BLOCK_M"), ("k", "BLOCK_N"), ("v", "BLOCK_N"), ("do", "BLOCK_M")):
        if isinstance(arguments.get(name), TensorDescriptor):
            arguments[name].block_shape = [1, 1, arguments[rows], arguments["BLOCK_DIM"]]


def config(block_m: int, block_n: int, warps: int, stages: int, **flags: bool) -> triton.Config:
    """Return one configuration to try."""
    blocks = {"BLOCK_M": block_m, "BLOCK_N": block_n} | flags
    return triton.Config(blocks, num_warps=warps, num_stages=stages, pre_hook=before_launch)


def suitable(configs: list[triton.Config], _: dict, **arguments) -> list[triton.Config]:
    """Keep the configurations with blocks near the right size, and AHEAD only where it can work and pay."""
    least = side(arguments)
    ahead = arguments["TMA"] and not arguments["BIAS"] and arguments["BLOCK_DIM"] == 128
    shapes = [(c, c.kwargs["BLOCK_M"], c.kwargs["BLOCK_N"], c.kwargs.get("AHEAD", False)) for c in configs]
    return [c for c, m, n, a in shapes if least <= min(m, n) and max(m, n) <= 2 * least and (ahead or not a)]


def tune(kernel, *configs: triton.Config):
    """Return the kernel with the configurations to choose from."""
    key = ["seq_q", "seq_k", "DIM", "CAUSAL", "BIAS", "TMA"]
    return triton.autotune(list(configs), key=key, prune_configs_by={"early_config_prune": suitable})(kernel)


SQUARE = (config(64, 64, 4, 2), config(32, 32, 4, 2), config(16, 16, 4, 2))
forward_tuned = tune(forward_kernel, config(128, 128, 8, 3, AHEAD=True), config(64, 128, 4, 2), *SQUARE)
dq_tuned = tune(dq_kernel, config(128, 128, 8, 2), *SQUARE)
dkdv_tuned = tune(dkdv_kernel, config(64, 128, 8, 2), *SQUARE)


def launch(kernel, tuned, length: int, block: str, arguments: dict) -> None:
    """Run a kernel over the blocks of `length` rows of every head, in the best configuration where finding it pays."""
    q = getattr(arguments["q"], "base", arguments["q"])
    pairs, dim = q.shape[0] * q.shape[1], q.shape[3]
    if q.is_cuda and 4 * pairs * arguments["seq_q"] * arguments["seq_k"] * dim >= LARGE_FLOPS:
        tuned[lambda meta: (pairs * triton.cdiv(length, meta[block]),)](**arguments)
        return
    fit = {"BLOCK_M": arguments["seq_q"], "BLOCK_N": arguments["seq_k"]}
    arguments = arguments | {name: min(max(16, triton.next_power_of_2(n)), side(arguments)) for name, n in fit.items()}
    before_launch(arguments)
    kernel[(pairs * triton.cdiv(length, arguments[block]),)](**arguments, num_warps=4, num_stages=2)


def inputs(**tensors: torch.Tensor) -> dict:
    """Return the kernels' arguments for tensors read by blocks of rows: descriptors, if TMA can read them all.

    The copy engine needs rows in one piece and everything else at multiples of 16 bytes.
    """
    arguments, steps, tma = {}, {}, True
    for name, x in tensors.items():
        # The stride of a dimension of size 1 may be anything; 8 will do.
        steps[name] = [step if size > 1 else 8 for size, step in zip(x.shape[:3], x.stride()[:3], strict=True)]
        tma = tma and x.is_cuda and torch.cuda.get_device_capability(x.device)[0] >= 9 and x.element_size() == 2
        tma = tma and x.data_ptr() % 16 == 0 and x.stride(3) == 1 and all(n > 0 and n % 8 == 0 for n in steps[name])
        arguments[f"{name}_strides"] = x.stride()
    for name, x in tensors.items():
        arguments[name] = TensorDescriptor(x, list(x.shape), [*steps[name], 1], [1, 1, 1, 16]) if tma else x
    return arguments | {"TMA": tma}


class FlashAttention(torch.autograd.Function):
    """o and lse of attention; arguments of `apply`: q, k, v, causal, bias."""

    @staticmethod
    def forward(ctx, q, k, v, causal, bias):
        """Save the inputs, o and lse; the backward recomputes the scores."""
        batch, heads, seq_q, dim = q.shape
        o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
        ctx.shared = {
            "heads": heads, "seq_q": seq_q, "seq_k": k.shape[2], "scale": math.log2(math.e) / math.sqrt(dim),
            "CAUSAL": causal, "BIAS": bias is not None, "DIM": dim, "BLOCK_DIM": block_dim(dim),
            "PRECISION": "tf32x3" if q.dtype == torch.float32 else "tf32", "bias_strides": (0, 0, 0, 0),
        }  # fmt: skip
        if bias is not None:  # stride 0 where it is broadcast
            ctx.shared["bias_strides"] = bias.expand(batch, heads, seq_q, k.shape[2]).stride()
        arguments = inputs(q=q, k=k, v=v) | {"bias": bias, "o": o, "lse": lse} | ctx.shared
        launch(forward_kernel, forward_tuned, seq_q, "BLOCK_M", arguments)
        ctx.save_for_backward(q, k, v, bias, o, lse)
        return o, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, do, dlse):
        """Return the gradients of q, k, v and bias."""
        q, k, v, bias, o, lse = ctx.saved_tensors
        dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
        dbias = torch.empty(bias.shape, dtype=torch.float32, device=q.device) if ctx.needs_input_grad[4] else None
        shift, d = torch.empty_like(lse), torch.empty_like(lse)
        arguments = inputs(q=q, k=k, v=v, do=do) | ctx.shared
        arguments |= {"bias": bias, "shift": shift, "d": d, "dim_scale": 1.0 / math.sqrt(q.shape[3])}
        only_dq = {"o": o, "lse": lse, "dlse": dlse, "dlse_strides": dlse.stride(), "dq": dq}
        launch(dq_kernel, dq_tuned, q.shape[2], "BLOCK_M", arguments | only_dq)
        strides = (0, 0, 0, 0) if dbias is None else dbias.expand(*q.shape[:3], k.shape[2]).stride()
        only_dkdv = {"dk": dk, "dv": dv, "dbias": dbias, "dbias_strides": strides, "DBIAS": dbias is not None}
        launch(dkdv_kernel, dkdv_tuned, k.shape[2], "BLOCK_N", arguments | only_dkdv)
        return dq, dk, dv, None, None if dbias is None else dbias.to(bias.dtype)


# solution: end


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    bias: torch.Tensor | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Return o = P·v, P the softmax over keys of S = q·kᵀ / √dim + bias; differentiable in q, k, v and bias.

    q: (batch, heads, seq_q, dim), k and v: (batch, heads, seq_k, dim), any strides, all float32, float16 or bfloat16;
    they must not be changed. dim is 16 to 256, not always a power of two. seq_q and seq_k are any, and may differ.
    causal: query i sees the keys j ≤ i + seq_k − seq_q, so that the last query sees the last key.
    bias: (batch or 1, heads or 1, seq_q, seq_k) of the same dtype; entries may be −∞.
    A query that sees no key has o = 0 and lse = −∞.
    Result: o like q, a new tensor. With return_lse the tuple (o, lse), lse[…, i] = ln Σⱼ exp(S[…, i, j]) in float32,
    (batch, heads, seq_q).
    Memory: linear in seq_q and seq_k. Go over the keys in blocks, with a running maximum and sum (FlashAttention-2).
    Gradients, for the check `gradient`: from `backward` of a torch.autograd.Function, in kernels of yours. With g the
    gradient of o and D = Σ g·o over dim, minus the gradient of lse where that is asked for:
    dv = Pᵀ·g, dS = P ∘ (g·vᵀ − D), dq = dS·k / √dim, dk = dSᵀ·q / √dim; dbias is dS, summed where bias was broadcast.
    """
    # solution: begin
    o, lse = FlashAttention.apply(q, k, v, causal, bias)
    return (o, lse) if return_lse else o
    # solution: end

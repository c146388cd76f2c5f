# solution: begin
"""Matrix product with ReLU in the same kernel.

matmul_relu(a, b)[i, j] = max(Σₖ a[i, k] · b[k, j], 0)

Each program computes one tile of the result, walking K in slices that go through shared memory to the tensor cores and
add up in float32; max(·, 0) is applied to the registers before the only store. Programs are numbered so that those
running together form a nearly square patch of tiles and share their slices in the L2 cache (the grouped order of
Triton's matrix multiplication tutorial).

Two kernels: `matmul_relu_kernel` reads through pointers, so it takes any strides and any GPU. On Hopper and later,
large 16-bit products whose rows or columns lie at multiples of 16 bytes use `matmul_relu_tma_kernel`: the copy engine
fetches whole tiles from a descriptor, threads compute no addresses, and one program a multiprocessor loops over tiles.

FLOPs: 2 · M · N · K. Bytes moved at least: (M · K + K · N + M · N) · element size.
"""

#: """Exercise: a matrix product with a ReLU fused behind it."""
# solution: end

import torch
import triton
import triton.language as tl

# solution: begin
from triton.tools.tensor_descriptor import TensorDescriptor

LARGE_FLOPS = 2**33  # tens of microseconds of work: below, trying configurations costs more than it can save


@triton.jit
def tile_position(tile, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """Row and column of a tile when tiles are numbered down groups of GROUP_M rows."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    group = tile // (GROUP_M * tiles_n)
    group_rows = tl.minimum(tiles_m - group * GROUP_M, GROUP_M)
    within = tile % (GROUP_M * tiles_n)
    return group * GROUP_M + within % group_rows, within // group_rows


@triton.jit
def matmul_relu_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """One tile of c, for any strides."""
    tile_m, tile_n = tile_position(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    # int64 offsets: in a large matrix, row · stride passes 2³¹.
    rows = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    ks = tl.arange(0, BLOCK_K).to(tl.int64)
    a_ptrs = a_ptr + rows * stride_am + ks[None, :] * stride_ak
    b_ptrs = b_ptr + ks[:, None] * stride_bk + cols * stride_bn
    a_step = tl.cast(stride_ak, tl.int64) * BLOCK_K
    b_step = tl.cast(stride_bk, tl.int64) * BLOCK_K
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        # Zeros beyond the edge add nothing to the sum.
        a = tl.load(a_ptrs, mask=(rows < M) & (ks[None, :] < K - start), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - start) & (cols < N), other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += a_step
        b_ptrs += b_step
    c = tl.maximum(accumulator, 0.0).to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + rows * stride_cm + cols * stride_cn, c, mask=(rows < M) & (cols < N))


@triton.jit
def matmul_relu_tma_kernel(
    a_desc, b_desc, c_desc, M, N, K, A_COLUMNS: tl.constexpr, B_COLUMNS: tl.constexpr, PROGRAMS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Tiles of c, one after another, through tensor descriptors, which also take care of the edges."""
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True):
        tile_m, tile_n = tile_position(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        row, col = tile_m * BLOCK_M, tile_n * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(0, K, BLOCK_K):
            # A matrix stored by columns is described by its transpose; the tensor cores read either order.
            a = a_desc.load([start, row]).T if A_COLUMNS else a_desc.load([row, start])
            b = b_desc.load([col, start]).T if B_COLUMNS else b_desc.load([start, col])
            accumulator = tl.dot(a, b, accumulator)
        c_desc.store([row, col], tl.maximum(accumulator, 0.0).to(c_desc.dtype))


def set_block_shapes(arguments: dict) -> None:
    """Give the descriptors the tile shapes of the configuration about to run."""
    m, n, k = (arguments[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    arguments["a_desc"].block_shape = [k, m] if arguments["A_COLUMNS"] else [m, k]
    arguments["b_desc"].block_shape = [n, k] if arguments["B_COLUMNS"] else [k, n]
    arguments["c_desc"].block_shape = [m, n]


def config(m: int, n: int, k: int, warps: int, stages: int, pre_hook=None) -> triton.Config:
    """Return one configuration to try; GROUP_M = 8 keeps the working set of a wave of tiles within L2."""
    blocks = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8}
    return triton.Config(blocks, num_warps=warps, num_stages=stages, pre_hook=pre_hook)


def fitting(configs: list[triton.Config], named_args: dict, **_) -> list[triton.Config]:
    """Keep the configurations whose slices fit the device's shared memory."""
    element_size = named_args["a_ptr"].element_size()
    limit = torch.cuda.get_device_properties(named_args["a_ptr"].device).shared_memory_per_block_optin
    return [
        c
        for c in configs
        if (c.kwargs["BLOCK_M"] + c.kwargs["BLOCK_N"]) * c.kwargs["BLOCK_K"] * element_size * c.num_stages <= limit
    ]  # fmt: skip


matmul_relu_tuned = triton.autotune(
    [config(128, 256, 64, 8, 3), config(128, 128, 64, 4, 3), config(128, 128, 32, 4, 4), config(64, 128, 32, 4, 4)],
    key=["M", "N", "K"],
    prune_configs_by={"early_config_prune": fitting},
)(matmul_relu_kernel)
matmul_relu_tma_tuned = triton.autotune(
    [config(128, 256, 64, 8, 3, set_block_shapes), config(128, 128, 64, 8, 4, set_block_shapes)],
    key=["M", "N", "K", "A_COLUMNS", "B_COLUMNS"],
)(matmul_relu_tma_kernel)


def rows_or_columns(x: torch.Tensor) -> bool | None:
    """Return False if the copy engine can read x by rows, True if by columns, None if neither."""
    if x.data_ptr() % 16 or x.element_size() != 2:
        return None
    for columns, (pitch, step) in ((False, x.stride()), (True, x.stride()[::-1])):
        if step == 1 and pitch % 8 == 0 and pitch >= x.shape[0 if columns else 1]:
            return columns
    return None


# solution: end


def matmul_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return max(Σₖ a[i, k]·b[k, j], 0).

    a: (M, K), b: (K, N), any strides, both float32, float16 or bfloat16; they must not be changed.
    Result: a new (M, N) tensor of the same dtype and device. Accumulate in float32; apply the ReLU before the store.
    """
    # solution: begin
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if not c.numel():
        return c
    strides = (*a.stride(), *b.stride(), *c.stride())
    if not a.is_cuda or 2 * M * N * K < LARGE_FLOPS:
        block_m, block_n = (min(max(16, triton.next_power_of_2(size)), 64) for size in (M, N))
        grid = (triton.cdiv(M, block_m) * triton.cdiv(N, block_n),)
        matmul_relu_kernel[grid](
            a, b, c, M, N, K, *strides, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=32, GROUP_M=8, num_stages=4
        )  # fmt: skip
        return c
    a_columns, b_columns = rows_or_columns(a), rows_or_columns(b)
    has_tma = torch.cuda.get_device_capability(a.device)[0] >= 9
    if has_tma and None not in (a_columns, b_columns, rows_or_columns(c)):
        a_desc, b_desc, c_desc = (
            # The true block shapes are set for each configuration by set_block_shapes.
            TensorDescriptor.from_tensor(x.T if columns else x, [1, 1])
            for x, columns in ((a, a_columns), (b, b_columns), (c, False))
        )
        programs = torch.cuda.get_device_properties(a.device).multi_processor_count
        matmul_relu_tma_tuned[(programs,)](a_desc, b_desc, c_desc, M, N, K, a_columns, b_columns, programs)
    else:
        matmul_relu_tuned[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)](
            a, b, c, M, N, K, *strides
        )  # fmt: skip
    return c
    # solution: end

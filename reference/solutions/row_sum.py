# solution: begin
"""Sum of each row of a matrix.

row_sum(x)[i] = Σⱼ x[i, j]

Each program walks a few rows in tiles of columns and adds them into a float32 tile, one accumulator a lane, which it
reduces once at the end: no exchange between threads inside the loop, and N / BLOCK_N additions a lane in place of N
in a chain, which also keeps the rounding error small. Too few rows to fill the device are cut into ranges of columns
whose partial sums the same kernel adds up in a fixed order: no atomics, so the result is the same every time.

Bytes moved: M · N · element size read, M · element size written.
"""

#: """Exercise: the sums of the rows of a matrix."""
# solution: end

import torch
import triton
import triton.language as tl

# solution: begin
WIDEST_TILE = 16384  # columns of a tile that is a whole row
TILE = 8192  # where it divides the columns
MASKED_TILE = 4096
PROGRAMS_WANTED = 512  # enough to fill the largest devices a few times over


@triton.jit
def row_sum_kernel(
    x_ptr, out_ptr, M, N, stride_m, stride_n, out_stride_m, out_stride_range, columns_per_range,
    WHOLE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Sum BLOCK_M rows over one range of columns; WHOLE where no tile reaches over an edge.

    The loads of STAGES - 1 tiles are under way while one is added.
    """
    # int64 for what is multiplied by a stride: a row's offset, and a transpose's column offset, may pass 2³¹.
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    part = tl.program_id(1).to(tl.int64)
    first = part * columns_per_range
    x_ptrs = x_ptr + rows[:, None] * stride_m + first * stride_n
    lanes = tl.arange(0, BLOCK_N)[None, :]
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    columns = columns_per_range if WHOLE else tl.minimum(columns_per_range, N - first)
    for start in tl.range(0, columns, BLOCK_N, num_stages=STAGES):
        cols = (start + lanes).to(tl.int64)
        # Nothing is read twice: what is loaded need not stay in the cache.
        if WHOLE:
            x = tl.load(x_ptrs + cols * stride_n, eviction_policy="evict_first")
        else:
            mask = (rows[:, None] < M) & (cols < columns)
            x = tl.load(x_ptrs + cols * stride_n, mask=mask, other=0.0, eviction_policy="evict_first")
        # 16-bit inputs are widened before they are added: a 16-bit sum overflows or stops growing.
        accumulator += x.to(tl.float32)
    total = tl.sum(accumulator, axis=1)
    out_ptrs = out_ptr + rows * out_stride_m + part * out_stride_range
    tl.store(out_ptrs, total.to(out_ptr.dtype.element_ty), mask=rows < M)


def tile_of(columns: int) -> int:
    """The columns of a tile that walks so many."""
    if columns == WIDEST_TILE:
        return columns
    return TILE if columns % TILE == 0 else min(triton.next_power_of_2(columns), MASKED_TILE)


def launch(x: torch.Tensor, out: torch.Tensor, ranges: int) -> None:
    """Sum x (M, N) over `ranges` ranges of columns into out (M, ranges)."""
    M, N = x.shape
    columns = triton.cdiv(N, ranges)
    block_n = tile_of(columns)
    if x.stride(0) == 1 and x.stride(1) != 1:
        # Neighbours in memory are neighbours down a column: a tile must be tall to read whole cache lines.
        block_n = min(block_n, 64)
    block_m = min(max(1, MASKED_TILE // block_n), triton.next_power_of_2(M), 64)
    grid = (triton.cdiv(M, block_m), ranges)
    whole = M % block_m == 0 and columns % block_n == 0 and columns * ranges == N
    # Tiles under way are kept in shared memory, and a mask would have to wait with them.
    stages = 3 if whole and columns > block_n else 1
    row_sum_kernel[grid](
        x, out, M, N, *x.stride(), *out.stride(), columns,
        WHOLE=whole, BLOCK_M=block_m, BLOCK_N=block_n, STAGES=stages, num_warps=16,
    )  # fmt: skip


# solution: end


def row_sum(x: torch.Tensor) -> torch.Tensor:
    """Return Σₖ x[i, k] for each row i.

    x: (M, N), any strides, float32, float16 or bfloat16; it must not be changed. N may be larger than any block.
    Result: a new (M,) tensor of the same dtype and device. Accumulate in float32.
    """
    # solution: begin
    M, N = x.shape
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    if not M:
        return out
    # Ranges of at least 16 tiles each: shorter ones would cost more in the second launch than they save.
    ranges = max(1, min(PROGRAMS_WANTED // M, N // (16 * TILE)))
    if ranges > 1:
        partial = torch.empty((M, ranges), dtype=torch.float32, device=x.device)
        launch(x, partial, ranges)
        x = partial
    launch(x, out[:, None], 1)
    return out
    # solution: end

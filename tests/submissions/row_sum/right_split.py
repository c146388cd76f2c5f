"""Row sums in two kernels: partial sums of pieces of a row, then the sum of the partial sums."""

import torch
import triton
import triton.language as tl

PIECE = 2048


@triton.jit
def partial_sums(x_ptr, part_ptr, N, pieces, x_rs, x_cs, PIECE: tl.constexpr):
    row, piece = tl.program_id(0), tl.program_id(1)
    cols = piece * PIECE + tl.arange(0, PIECE)
    x = tl.load(x_ptr + row * x_rs + cols * x_cs, mask=cols < N, other=0.0)
    tl.store(part_ptr + row * pieces + piece, tl.sum(x.to(tl.float32), axis=0))


@triton.jit
def add_parts(part_ptr, out_ptr, pieces, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, WIDTH)
    parts = tl.load(part_ptr + row * pieces + i, mask=i < pieces, other=0.0)
    tl.store(out_ptr + row, tl.sum(parts, axis=0))


def row_sum(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    pieces = triton.cdiv(N, PIECE)
    parts = torch.empty((M, pieces), dtype=torch.float32, device=x.device)
    out = torch.empty((M,), dtype=x.dtype, device=x.device)
    partial_sums[(M, pieces)](x, parts, N, pieces, x.stride(0), x.stride(1), PIECE=PIECE)
    add_parts[(M,)](parts, out, pieces, WIDTH=triton.next_power_of_2(pieces))
    return out

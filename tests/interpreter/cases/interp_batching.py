"""Programs that run together: what they give, where they part, and where they are left to the loop.

`interp_modes` compares every launch here, as in all cases, with the loop's.
"""

from __future__ import annotations

import interp_modes
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from interp_support import DTYPES, Options, clean, feature, run, same

from grader.worker.interpreter import batching, programs, together


def last():
    return batching.history[-1]


# ---------------------------------------------------------------- where programs part


@triton.jit
def branch_kernel(x_ptr, y_ptr, EVERY: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(y_ptr + offs, x)
    if pid % EVERY == 0:
        x = x * 2
        tl.store(y_ptr + offs, x + 1)
    if tl.num_programs(0) > 3:
        x += 5
    tl.store(y_ptr + offs, x)


@feature("programs of a launch run together where that is the same as one after the other")
def test_branches_split_the_batch_by_value():
    x, y = torch.randn(8 * 16), torch.empty(8 * 16)
    clean(branch_kernel, (8,), x, y, EVERY=2, BLOCK=16)
    assert (last().together, last().runs) == (8, 3)
    even = (torch.arange(128) // 16) % 2 == 0
    same(y, torch.where(even, x * 2, x) + 5)


def test_branches_that_all_take_alike_do_not_split():
    clean(branch_kernel, (8,), torch.randn(128), torch.empty(128), EVERY=1, BLOCK=16)
    assert (last().together, last().runs) == (8, 1)


@triton.jit
def many_branches_kernel(y_ptr):
    pid = tl.program_id(0)
    while pid > 0:
        tl.store(y_ptr + tl.program_id(0), pid)
        pid -= 1


def test_as_many_branches_as_programs_are_left_to_the_loop():
    y = torch.zeros(9)
    clean(many_branches_kernel, (9,), y)
    assert (last().together, last().reason) == (0, "too many different branches")


@triton.jit
def triangle_kernel(x_ptr, y_ptr, N, ROWS: tl.constexpr):
    row = tl.program_id(0)
    block = row // ROWS
    total = 0.0
    for col in range((block + 1) * ROWS):
        total += tl.load(x_ptr + row * N + col)
    tl.store(y_ptr + row, total)


def test_trip_counts_split_the_batch():
    x, y = torch.randn(16, 16), torch.empty(16)
    clean(triangle_kernel, (16,), x, y, 16, ROWS=8)
    assert (last().together, last().runs) == (16, 3)
    torch.testing.assert_close(y, torch.cat([x[:8, :8].sum(1), x[8:].sum(1)]))


@triton.jit
def persistent_kernel(x_ptr, y_ptr, tiles, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        offs = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + offs, tl.load(x_ptr + offs) + tile)


def test_loops_that_start_apart_and_are_equally_long_run_together():
    x, y = torch.randn(12 * 16), torch.empty(12 * 16)
    clean(persistent_kernel, (4,), x, y, 12, BLOCK=16)
    assert (last().together, last().runs) == (4, 1)
    same(y, x + torch.arange(12).repeat_interleave(16))
    clean(persistent_kernel, (8,), x, y, 12, BLOCK=16)
    assert (last().together, last().runs) == (8, 3)


# ---------------------------------------------------------------- memory between programs


@triton.jit
def overlapping_kernel(y_ptr, step, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * step + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, offs * 100 + pid)


@pytest.mark.parametrize("step", [0, 1, 8])
def test_the_last_program_wins_where_stores_overlap(step):
    y = torch.zeros(16 + 3 * step, dtype=torch.int32)
    run(overlapping_kernel, (4,), y, step, BLOCK=16)
    assert last().together == 4
    expected = torch.zeros_like(y)
    for pid in range(4):
        offs = pid * step + torch.arange(16)
        expected[offs] = (offs * 100 + pid).int()
    same(y, expected)


@triton.jit
def two_stores_kernel(y_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs + pid, pid)
    tl.store(y_ptr + offs, -pid)


def test_two_overlapping_stores_are_left_to_the_loop():
    y = torch.zeros(20, dtype=torch.int32)
    run(two_stores_kernel, (4,), y, BLOCK=16)
    assert (last().together, last().reason) == (0, "stores what a later program stored")
    assert y.tolist() == [-3] * 16 + [3, 3, 3, 0]


@triton.jit
def chain_kernel(x_ptr, BACK: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs + BACK * BLOCK)
    tl.store(x_ptr + offs + BLOCK, x + 1)


@pytest.mark.parametrize("back", [0, 2])
def test_a_load_of_what_an_earlier_program_stores_is_left_to_the_loop(back):
    x = torch.zeros(6 * 16)
    result = run(chain_kernel, (4,), x, BACK=back, BLOCK=16)
    assert bool(result.warnings) == (back == 0)
    # A load of what a later program will store is no reason: it comes first either way.
    assert last().together == (0 if back == 0 else 4)
    assert x[::16].tolist() == ([0, 1, 2, 3, 4, 0] if back == 0 else [0, 1, 1, 1, 1, 0])


@triton.jit
def in_place_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs) * 2)
    tl.store(y_ptr + offs, tl.load(y_ptr + offs) + 1)


def test_in_place_runs_together():
    x = torch.randn(64)
    expected = x * 2 + 1
    clean(in_place_kernel, (4,), x, x, BLOCK=16)
    assert last().together == 4
    same(x, expected)


def test_overlapping_views_are_left_to_the_loop():
    memory = torch.randn(80)
    run(in_place_kernel, (4,), memory[:64], memory[16:], BLOCK=16)
    assert (last().together, last().reason) == (0, "stores to two views of the same memory")


def test_chunks_of_a_long_launch():
    n = 5 * 2**18
    x, y = torch.randn(n), torch.empty(n)
    clean(persistent_kernel, (n // 2**16,), x, y, n // 2**16, BLOCK=2**16)
    assert last().together == n // 2**16
    assert last().runs > 1
    same(y, x + torch.arange(n // 2**16).repeat_interleave(2**16))
    assert together.LANES // 2**16 == 16


# ---------------------------------------------------------------- faults


@triton.jit
def fault_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs))


def test_fault_is_attributed_to_the_first_program_that_commits_it():
    result = run(fault_kernel, (6,), torch.randn(70), torch.empty(96), BLOCK=16)
    assert result.faults[0].program == [4, 0, 0]
    assert result.fault_count == 2
    assert (last().together, last().programs) == (4, 6)


@triton.jit
def failing_kernel(y_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(y_ptr + pid * BLOCK + tl.arange(0, BLOCK), pid)
    if pid == 2:
        tl.store(y_ptr + tl.arange(0, BLOCK), tl.zeros((2 * BLOCK,), tl.float32))


def test_an_error_leaves_what_the_programs_before_it_stored():
    y = torch.full((64,), -1.0)
    with pytest.raises(ValueError, match="shape"):
        run(failing_kernel, (4,), y, BLOCK=16)
    assert y[::16].tolist() == [0, 1, 2, -1]


def test_nothing_runs_together_unless_asked(monkeypatch):
    monkeypatch.setattr(interp_modes, "active", [False])
    run(fault_kernel, (4,), torch.randn(64), torch.empty(64), BLOCK=16, options=Options(batch=False))
    assert (last().together, last().reason) == (0, "not asked for")


@triton.jit
def printing_kernel(x_ptr, KIND: tl.constexpr):
    pid = tl.program_id(0)
    if KIND == "static":
        tl.static_print("program")
    elif KIND == "device":
        tl.device_print("program", pid)
    else:
        print("program", pid)
    tl.store(x_ptr + pid, pid)


@pytest.mark.parametrize("kind", ["static", "device", "python"])
def test_every_program_prints_in_turn(kind, capsys, monkeypatch):
    monkeypatch.setattr(interp_modes, "active", [False])
    clean(printing_kernel, (3,), torch.zeros(3), KIND=kind)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert kind == "static" or [line.rpartition("[")[2][:1] for line in lines] == ["0", "1", "2"]


# ---------------------------------------------------------------- operations on values that differ


@triton.jit
def largest_pair(a_value, a_index, b_value, b_index):
    first = (a_value > b_value) | ((a_value == b_value) & (a_index < b_index))
    return tl.where(first, a_value, b_value), tl.where(first, a_index, b_index)


@triton.jit
def product_of(a, b):
    return a * b


@triton.jit
def operation_kernel(x_ptr, w_ptr, y_ptr, OP: tl.constexpr):
    pid = tl.program_id(0)
    rows, cols = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    tile = rows * 16 + cols
    x = tl.load(x_ptr + pid * 256 + tile)
    w = tl.load(w_ptr + tile)
    y = x
    if OP == "sum":
        y = x + tl.sum(x, axis=0)[None, :] + tl.sum(x, axis=1, keep_dims=True) + tl.sum(tl.sum(x, 0), 0)
    elif OP == "argmax":
        y = x + tl.argmax(x, axis=1)[:, None] - tl.argmin(x, axis=0)[None, :]
    elif OP == "reduce":
        value, index = tl.reduce((x, cols + tl.zeros_like(rows)), 1, largest_pair)
        y = x + value[:, None] * index[:, None]
    elif OP == "scan":
        y = tl.cumsum(x, axis=0) + tl.associative_scan(x, 1, product_of) + tl.cumprod(x, axis=1, reverse=True)
    elif OP == "sort":
        y = tl.sort(x, descending=True)
    elif OP == "transpose":
        y = x.T + tl.trans(w)
    elif OP == "gather":
        y = tl.gather(x, (rows + pid) % 16 + 0 * cols, axis=0) + tl.gather(w, (cols + pid) % 16 + 0 * rows, axis=1)
    elif OP == "histogram":
        y = x + tl.histogram((tl.abs(tl.ravel(x)) * 4).to(tl.int32), 16)[None, :]
    elif OP == "dot":
        y = tl.dot(x, w, input_precision="ieee") + tl.dot(w.to(x.dtype), x.T) + tl.dot(w, w)
    elif OP == "dot3":
        y = tl.dot(x.reshape(1, 16, 16), w.reshape(1, 16, 16)).reshape(16, 16)
    elif OP == "shapes":
        joined = tl.join(x, w)
        left, right = tl.split(joined)
        y = tl.permute(joined, (2, 0, 1)).reshape(2, 256).trans().reshape(16, 32).reshape(512).reshape(2, 16, 16).sum(0)
        y += left - right + tl.interleave(x, w).reshape(2, 16, 16).sum(0) + tl.flip(x, 1)
    elif OP == "scalars":
        s = tl.load(x_ptr + pid * 256) + tl.load(w_ptr)
        y = tl.where(s > 0, x * s, w / s) + tl.maximum(s, 0.5) + min(s, 3) + (pid + s).to(x.dtype)
    elif OP == "fma":
        y = tl.fma(x, w, x) + tl.clamp(x, -0.5, 0.5) + tl.sigmoid(x) + tl.erf(x)
    elif OP == "bits":
        bits = x.to(tl.float32).to(tl.uint32, bitcast=True)
        y = ((bits >> 3) ^ (bits << 2) | pid.to(tl.uint32)).to(tl.float32) * 1e-9 + tl.umulhi(bits, bits).to(tl.float32)
    elif OP == "random":
        y = x + tl.rand(pid, tile) + tl.randn(7, tile + pid * 256)
    elif OP == "casts":
        y = x.to(tl.float16).to(tl.float32) + x.to(tl.bfloat16) + x.to(tl.int32) + (x > 0)
    elif OP == "softmax":
        y = tl.softmax(x.to(tl.float32))
    tl.store(y_ptr + pid * 256 + tile, y.to(y_ptr.dtype.element_ty))


OPERATIONS = [
    "sum", "argmax", "reduce", "scan", "sort", "transpose", "gather", "histogram", "dot", "dot3", "shapes", "scalars",
    "fma", "bits", "random", "casts", "softmax",
]  # fmt: skip
FLOAT32_ONLY = {"fma", "dot", "scan"}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("op", OPERATIONS)
def test_operation_gives_the_same_together(op, dtype):
    if dtype != "float32" and op in FLOAT32_ONLY:
        pytest.skip("float32 only")
    x = torch.randn(5, 256)
    x[3, 7] = float("nan") if op == "argmax" else 1.0
    y = torch.empty(5, 256)
    clean(operation_kernel, (5,), x.to(DTYPES[dtype]), torch.randn(256).to(DTYPES[dtype]), y, OP=op)
    assert (last().together, last().runs) == (5, 1), last()


@triton.jit
def descriptor_kernel(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.make_tensor_descriptor(x_ptr, (M, N), (N, 1), (BLOCK, BLOCK))
    y = tl.make_tensor_descriptor(y_ptr + pid * 16 * BLOCK, (BLOCK, 16), (16, 1), (BLOCK, BLOCK))
    y.store((0, 0), x.load((pid * BLOCK - 2, 0)))


def test_descriptors_that_differ_between_programs():
    x, y = torch.randn(30, 16), torch.zeros(64, 16)
    clean(descriptor_kernel, (4,), x, y, 30, 16, BLOCK=16)
    assert last().together == 4
    same(y, torch.nn.functional.pad(x, (0, 0, 2, 32)))


@triton.jit
def block_pointer_kernel(x_ptr, y_ptr, M, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    source = tl.make_block_ptr(x_ptr, (M, 16), (16, 1), (0, 0), (BLOCK, 16), (1, 0))
    source = tl.advance(source, (pid * BLOCK, 0))
    target = tl.make_block_ptr(y_ptr + pid * 16 * BLOCK, (BLOCK, 16), (16, 1), (0, 0), (BLOCK, 16), (1, 0))
    tl.store(target, tl.load(source, boundary_check=(0,), padding_option="zero"))


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.skipif(not hasattr(triton.runtime.interpreter, "BlockPointerHandle"), reason="this Triton has none")
def test_block_pointers_that_differ_between_programs():
    x, y = torch.randn(30, 16), torch.ones(32, 16)
    clean(block_pointer_kernel, (4,), x, y, 30, BLOCK=8)
    assert last().together == 4
    same(y, torch.nn.functional.pad(x, (0, 0, 0, 2)))


def test_what_knows_nothing_of_programs_is_refused():
    handle = programs.Spread(np.zeros((3, 4)), tl.float32)
    with pytest.raises(programs.Refused):
        _ = handle.data
    with pytest.raises(programs.Refused):
        programs.settled(handle, (5,))
    with pytest.raises(programs.Diverged):
        bool(programs.Spread(np.array([True, False]), tl.int1))

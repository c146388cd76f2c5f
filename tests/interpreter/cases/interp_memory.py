"""The memory check: what it finds, what it says, and what it leaves alone."""

# ruff: noqa: SIM108 - kernels keep to the forms that the compiler knows best
from __future__ import annotations

import dataclasses
import json

import pytest
import torch
import triton
import triton.language as tl
from interp_support import Options, clean, feature, line_of, run, same


@triton.jit
def unmasked_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)  # unmasked load
    tl.store(y_ptr + offs, x * 2, mask=offs < n)


@feature("out-of-bounds loads and stores are found and suppressed")
def test_missing_load_mask_is_named_with_line_argument_and_program():
    x, y = torch.randn(100), torch.zeros(100)
    record = run(unmasked_kernel, (2,), x, y, 100, BLOCK=64)
    line = line_of("# unmasked load", __file__)
    assert record.fault_count == 1
    fault = record.faults[0]
    assert fault.message == (
        f"interp_memory.py:{line}: load outside 'x_ptr' (float32 (100,)): 28 of 64 lanes, "
        "up to 112 bytes past its end; program (1, 0, 0)"
    )
    assert (fault.kind, fault.file, fault.line, fault.argument) == ("load", "interp_memory.py", line, "x_ptr")
    assert (fault.dtype, fault.shape, fault.lanes, fault.active_lanes) == ("float32", [100], 28, 64)
    assert (fault.bytes_past, fault.program) == (112, [1, 0, 0])
    same(y, x * 2)


def test_record_is_plain_data():
    record = run(unmasked_kernel, (2,), torch.randn(100), torch.zeros(100), 100, BLOCK=64)
    assert json.loads(json.dumps(dataclasses.asdict(record)))["faults"][0]["lanes"] == 28


@triton.jit
def unmasked_store_kernel(y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, offs.to(tl.float32))


def test_store_past_the_end_is_dropped_even_into_another_argument():
    memory = torch.full((64,), -1.0)
    y = memory[:40]
    record = run(unmasked_store_kernel, (1,), y, BLOCK=64)
    assert record.faults[0].message.endswith(
        "store outside 'y_ptr' (float32 (40,)): 24 of 64 lanes, up to 96 bytes past its end; program (0, 0, 0)"
    )
    same(y, torch.arange(40.0))
    same(memory[40:], torch.full((24,), -1.0))
    assert record.bytes_stored == 40 * 4


@triton.jit
def poison_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.float8_e4m3fn])
def test_suppressed_load_gives_nan_or_a_conspicuous_integer(dtype):
    x = torch.ones(4).to(dtype)
    y = torch.zeros(8).to(dtype)
    run(poison_kernel, (1,), x, y, BLOCK=8)
    same(y[:4].float(), x.float())
    assert torch.isnan(y[4:].float()).all() if dtype.is_floating_point else (y[4:] == 0x6B6B6B6B).all()


@triton.jit
def shifted_kernel(x_ptr, y_ptr, n, shift, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs + shift, mask=offs < n, other=0.0)
    tl.store(y_ptr + offs, x, mask=offs < n)


def test_negative_index_is_before_the_start():
    record = run(shifted_kernel, (1,), torch.randn(64), torch.empty(64), 64, -10, BLOCK=64)
    assert record.faults[0].bytes_past == -40
    assert "10 of 64 lanes, up to 40 bytes before its start" in record.faults[0].message


def test_off_by_one_mask():
    record = run(shifted_kernel, (1,), torch.randn(63), torch.empty(64), 64, 0, BLOCK=64)
    assert "1 of 64 lanes, up to 4 bytes past its end" in record.faults[0].message


@pytest.mark.parametrize("shift", [2**31 - 100, -(2**31), 2**45, -(2**45), 2**60, -(2**60), 2**63 - 100])
def test_wild_offsets_do_not_reach_memory(shift):
    x = torch.randn(64)
    y = torch.zeros(64)
    record = run(shifted_kernel, (1,), x, y, 64, shift, BLOCK=64)
    assert record.faults[0].lanes == 64
    assert torch.isnan(y).all()


@triton.jit
def forged_kernel(y_ptr, address, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    p = address.to(tl.pointer_type(tl.float32)) + offs
    tl.store(y_ptr + offs, tl.load(p))
    tl.store(p, offs.to(tl.float32))


@pytest.mark.parametrize("address", [0, 8, 2**46, 2**63 - 64, -16])
def test_pointers_made_from_integers_do_not_reach_memory(address):
    y = torch.zeros(16)
    record = run(forged_kernel, (1,), y, address, BLOCK=16)
    assert {fault.kind for fault in record.faults} == {"load", "store"}
    assert torch.isnan(y).all()


@triton.jit
def table_kernel(table_ptr, y_ptr, BLOCK: tl.constexpr):
    p = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.program_id(0) * BLOCK + offs, tl.load(p + offs))


@feature("tables of pointers (grouped matmul)")
def test_tables_of_data_pointers_work():
    from grader.worker.interpreter import record

    parts = [torch.randn(16), torch.randn(16)]
    y = torch.empty(32)
    with record(Options()) as result:
        table = torch.tensor([part.data_ptr() for part in parts])
        table_kernel[(2,)](table, y, BLOCK=16)
    assert not result.faults
    same(y, torch.cat(parts))
    with record(Options()) as result:
        short = torch.randn(10)
        table_kernel[(1,)](torch.tensor([short.data_ptr()]), y, BLOCK=16)
    assert result.faults[0].lanes == 6


@triton.jit
def rows_kernel(x_ptr, y_ptr, stride, M: tl.constexpr, N: tl.constexpr, COLS: tl.constexpr):
    rows, cols = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + rows * stride + cols, mask=cols < COLS, other=0.0)
    tl.store(y_ptr + rows * COLS + cols, x, mask=cols < COLS)


def test_wrong_stride_on_a_padded_view_hits_the_padding():
    x = torch.randn(8, 24)[:, :16]
    y = torch.empty(8, 16)
    record = run(rows_kernel, (1,), x, y, 16, M=8, N=16, COLS=16)
    assert "between its elements (padding that is not part of the view)" in record.faults[0].message
    assert record.faults[0].bytes_past == 0
    assert clean(rows_kernel, (1,), x, y, 24, M=8, N=16, COLS=16)
    same(y, x.contiguous())


@pytest.mark.parametrize("view", ["transposed", "expanded", "every_other", "slice"])
def test_correct_strides_of_any_view_are_in_bounds(view):
    x = {
        "transposed": lambda: torch.randn(16, 8).T,
        "expanded": lambda: torch.randn(1, 16).expand(8, 16),
        "every_other": lambda: torch.randn(8, 32)[:, ::2],
        "slice": lambda: torch.randn(20, 40)[3:11, 5:21],
    }[view]()
    y = torch.empty(8, 16)
    clean(strided_kernel, (1,), x, y, *x.stride(), M=8, N=16)
    same(y, x.contiguous())


@triton.jit
def strided_kernel(x_ptr, y_ptr, sm, sn, M: tl.constexpr, N: tl.constexpr):
    rows, cols = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(y_ptr + rows * N + cols, tl.load(x_ptr + rows * sm + cols * sn))


def test_slice_of_a_larger_storage_ends_where_the_slice_ends():
    storage = torch.randn(256)
    record = run(shifted_kernel, (1,), storage[64:128], torch.empty(128), 80, 0, BLOCK=128)
    assert record.faults[0].lanes == 16
    record = run(shifted_kernel, (1,), storage[64:128], torch.empty(128), 64, -4, BLOCK=128)
    assert record.faults[0].lanes == 4


@triton.jit
def copy_one(source, target, offs):
    x = tl.load(source + offs)  # in the helper
    tl.store(target + offs, x)


@triton.jit
def helper_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    copy_one(x_ptr, y_ptr, tl.arange(0, BLOCK))


def test_fault_in_a_helper_names_the_helpers_line_and_the_kernels_argument():
    record = run(helper_kernel, (1,), torch.randn(60), torch.empty(64), BLOCK=64)
    assert record.faults[0].line == line_of("# in the helper", __file__)
    assert record.faults[0].argument == "x_ptr"


@triton.jit
def two_sources_kernel(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    p = tl.where(offs % 2 == 0, a_ptr + offs, b_ptr + offs)
    tl.store(y_ptr + offs, tl.load(p, mask=offs < n), mask=offs < n)


def test_block_of_pointers_into_two_arguments():
    a, b, y = torch.randn(64), torch.randn(64), torch.empty(64)
    clean(two_sources_kernel, (1,), a, b, y, 64, BLOCK=64)
    same(y, torch.where(torch.arange(64) % 2 == 0, a, b))
    record = run(two_sources_kernel, (1,), a, b[:32], y, 64, BLOCK=64)
    assert [fault.argument for fault in record.faults] == ["b_ptr"]


@triton.jit
def atomic_kernel(y_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(y_ptr + tl.arange(0, BLOCK), 1.0)


def test_atomics_are_checked():
    y = torch.zeros(40)
    record = run(atomic_kernel, (1,), y, BLOCK=64)
    assert record.faults[0].kind == "atomic"
    assert record.faults[0].lanes == 24
    same(y, torch.ones(40))


@triton.jit
def block_pointer_kernel(x_ptr, y_ptr, M, N, CHECK: tl.constexpr):
    source = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (0, 0), (16, 16), (1, 0))
    target = tl.make_block_ptr(y_ptr, (16, 16), (16, 1), (0, 0), (16, 16), (1, 0))
    source = tl.advance(source, (0, 0))
    if CHECK:
        x = tl.load(source, boundary_check=(0, 1), padding_option="zero")
    else:
        x = tl.load(source)
    tl.store(target, x, boundary_check=(0, 1))


HAS_BLOCK_POINTERS = tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9)
DEPRECATED = pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")


@feature("block pointers (Triton 3.8 and before)")
@DEPRECATED
@pytest.mark.skipif(not HAS_BLOCK_POINTERS, reason="this Triton has no block pointers")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_block_pointers(dtype):
    x = torch.randn(10, 12).to(dtype)
    y = torch.ones(16, 16).to(dtype)
    clean(block_pointer_kernel, (1,), x, y, 10, 12, CHECK=True)
    same(y, torch.nn.functional.pad(x, (0, 4, 0, 6)))


@DEPRECATED
@pytest.mark.skipif(not HAS_BLOCK_POINTERS, reason="this Triton has no block pointers")
def test_block_pointer_without_boundary_check_is_checked():
    record = run(block_pointer_kernel, (1,), torch.randn(10, 12), torch.ones(16, 16), 10, 12, CHECK=False)
    assert record.faults[0].argument == "x_ptr"
    wrong_shape = run(block_pointer_kernel, (1,), torch.randn(10, 12), torch.ones(16, 16), 11, 12, CHECK=True)
    assert wrong_shape.faults[0].lanes == 12


@triton.jit
def device_descriptor_kernel(x_ptr, y_ptr, M, N, S):
    x = tl.make_tensor_descriptor(x_ptr, (M, N), (S, 1), (16, 16))
    y = tl.make_tensor_descriptor(y_ptr, (16, 16), (16, 1), (16, 16))
    y.store((0, 0), x.load((0, 0)))


@feature("tensor descriptors, made on host or device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_device_tensor_descriptors_pad_with_zero(dtype):
    x = torch.randn(10, 16).to(dtype)
    y = torch.ones(16, 16).to(dtype)
    clean(device_descriptor_kernel, (1,), x, y, 10, 12, 16)
    same(y, torch.nn.functional.pad(x[:, :12], (0, 4, 0, 6)))


def test_descriptor_with_a_wrong_shape_is_checked():
    record = run(device_descriptor_kernel, (1,), torch.randn(10, 16), torch.ones(16, 16), 11, 16, 16)
    assert record.faults[0].argument == "x_ptr"
    assert record.faults[0].lanes == 16


@triton.jit
def host_descriptor_kernel(x_desc, y_desc):
    x = x_desc.load([2, -4])
    y_desc.store([0, 0], x)


def test_host_tensor_descriptors_accept_any_offset():
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, y = torch.randn(10, 16), torch.ones(16, 16)
    x_desc = TensorDescriptor(x, list(x.shape), list(x.stride()), [16, 16])
    y_desc = TensorDescriptor(y, list(y.shape), list(y.stride()), [16, 16])
    clean(host_descriptor_kernel, (1,), x_desc, y_desc)
    expected = torch.zeros(16, 16)
    expected[:8, 4:] = x[2:, :12]
    same(y, expected)


@triton.jit
def descriptor_add_kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :])
    y = tl.make_tensor_descriptor(y_ptr, (10, 16), (16, 1), (16, 16))
    y.atomic_add((0, 0), x)


def test_descriptor_atomic_add():
    x, y = torch.randn(16, 16), torch.ones(10, 16)
    clean(descriptor_add_kernel, (2,), x, y)
    torch.testing.assert_close(y, 1 + 2 * x[:10])


@triton.jit
def narrow_view_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    pairs = x_ptr.to(tl.pointer_type(tl.int32))
    tl.store(y_ptr + offs, tl.load(pairs + offs))


def test_pointer_cast_to_a_wider_type_is_checked_by_bytes():
    x, y = torch.arange(64, dtype=torch.int16), torch.empty(32, dtype=torch.int32)
    clean(narrow_view_kernel, (1,), x, y, BLOCK=32)
    assert torch.equal(y, x.view(torch.int32))
    record = run(narrow_view_kernel, (1,), x[:63], y, BLOCK=32)
    assert record.faults[0].lanes == 1


@triton.jit
def many_lines_kernel(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + 1)
    for _ in range(100):
        x += tl.load(x_ptr + 2)
    tl.store(x_ptr + 1, x)


def test_one_fault_is_kept_per_line_and_the_rest_counted():
    record = run(many_lines_kernel, (1,), torch.zeros(1), BLOCK=1)
    assert len(record.faults) == 3
    assert record.fault_count == 102


def test_empty_tensor_has_no_valid_address():
    record = run(poison_kernel, (1,), torch.empty(0), torch.empty(8), BLOCK=8)
    assert record.faults[0].lanes == 8


def test_memory_check_can_be_turned_off_but_stays_safe():
    y = torch.zeros(8)
    record = run(poison_kernel, (1,), torch.ones(4), y, BLOCK=8, options=Options(memory_check=False))
    assert not record.faults
    assert torch.isnan(y[4:]).all()


@triton.jit
def counted_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    x += tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, x, mask=offs < n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bytes_of_active_lanes_are_counted(dtype):
    x, y = torch.ones(100).to(dtype), torch.ones(100).to(dtype)
    record = clean(counted_kernel, (3,), x, y, 50, BLOCK=128)
    size = x.element_size()
    assert (record.bytes_loaded, record.bytes_stored) == (3 * 2 * 50 * size, 3 * 50 * size)
    assert (record.unique_bytes_loaded, record.unique_bytes_stored) == (50 * size, 50 * size)


@triton.jit
def accumulate_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr, ATOMIC: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + offs)
    if ATOMIC:
        tl.atomic_add(y_ptr + offs, x)
    else:
        tl.store(y_ptr + offs, tl.load(y_ptr + offs) + x)


@feature("missing atomics between programs are reported as a warning")
def test_read_modify_write_across_programs_is_a_warning():
    x, y = torch.randn(64), torch.zeros(16)
    record = run(accumulate_kernel, (4,), x, y, BLOCK=16, ATOMIC=False)
    assert len(record.warnings) == 1
    assert "'y_ptr' that another program of the same launch stored" in record.warnings[0]
    clean(accumulate_kernel, (4,), x, y, BLOCK=16, ATOMIC=True)
    clean(accumulate_kernel, (1,), x, y, BLOCK=16, ATOMIC=False)


@triton.jit
def overlapping_kernel(y_ptr, n, STEP: tl.constexpr, BLOCK: tl.constexpr, SAME: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * STEP + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, offs.to(tl.float32) if SAME else pid.to(tl.float32), mask=offs < n)


@triton.jit
def ticket_kernel(y_ptr, count_ptr):
    tl.atomic_add(count_ptr, 1)
    tl.store(y_ptr, tl.program_id(0).to(tl.float32))


@pytest.mark.parametrize("programs", [2, 7])
def test_stores_of_other_values_over_another_programs_are_a_warning(programs):
    y = torch.zeros(64)
    record = run(overlapping_kernel, (programs,), y, 64, STEP=8, BLOCK=16, SAME=False)
    assert len(record.warnings) == 1
    assert (
        "stores to elements of 'y_ptr' that another program of the same launch stored with other values"
        in (record.warnings[0])
    )
    clean(overlapping_kernel, (programs,), y, 64, STEP=8, BLOCK=16, SAME=True)
    clean(overlapping_kernel, (4,), y, 64, STEP=16, BLOCK=16, SAME=False)
    clean(ticket_kernel, (programs,), y, torch.zeros(1, dtype=torch.int32))


@triton.jit
def in_place_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs) * 2)
    tl.store(y_ptr + offs, tl.load(y_ptr + offs) + 1)


def test_in_place_work_of_each_program_on_its_own_elements_is_fine():
    x = torch.arange(64.0)
    clean(in_place_kernel, (4,), x, x, BLOCK=16)
    same(x, torch.arange(64.0) * 2 + 1)

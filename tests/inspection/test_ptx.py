"""What is read from PTX: accesses, tensor cores, copies, the source's lines, and the addresses of a warp."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.ptx import parse, widest
from grader.ptx_lanes import patterns

HEAD = """\
.visible .entry kernel(
	.param .u64 .ptr .global .align 1 kernel_param_0,
	.param .u64 .ptr .global .align 1 kernel_param_1,
	.param .u32 kernel_param_2
)
{
	ld.param.b64 	%rd1, [kernel_param_0];
	ld.param.b64 	%rd2, [kernel_param_1];
	ld.param.b32 	%r2, [kernel_param_2];
	mov.u32 	%r1, %tid.x;
"""


def only(body, arguments=("pointer", "pointer", 4096)):
    (pattern,) = patterns(parse(HEAD + body), arguments)
    return pattern


def test_neighbouring_threads_with_16_bytes_each_are_coalesced():
    pattern = only("mul.wide.u32 %rd3, %r1, 16; add.s64 %rd4, %rd1, %rd3; ld.global.v4.b32 {%r5,%r6,%r7,%r8}, [%rd4];")
    assert (pattern.access.bytes, pattern.units, pattern.least) == (16, 16, 16)
    assert pattern.clean


def test_a_column_of_a_matrix_touches_a_sector_a_thread():
    # Each thread a row of 4096 float32: the stride is the launch's argument.
    address = "mul.lo.s32 %r3, %r1, %r2; mul.wide.s32 %rd3, %r3, 4; add.s64 %rd4, %rd1, %rd3; "
    pattern = only(address + "ld.global.b32 %r4, [ %rd4 + 0 ];")
    assert (pattern.units, pattern.least) == (32, 4)
    assert not pattern.clean


def test_one_address_for_all_threads_is_one_sector():
    pattern = only("ld.global.b32 %r4, [%rd1+8];")
    assert (pattern.units, pattern.least) == (1, 1)


def test_an_address_between_sectors_costs_one_more_and_is_coalesced():
    pattern = only("mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; ld.global.b32 %r4, [%rd4+4];")
    assert (pattern.units, pattern.least) == (5, 4)
    assert pattern.clean


def test_lanes_that_a_mask_switches_off_do_not_count():
    body = (
        "setp.lt.s32 %p1, %r1, 8; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; @%p1 st.global.b32 [%rd4], %r1;"
    )
    pattern = only(body)
    assert pattern.access.store
    assert (pattern.units, pattern.least) == (1, 1)
    assert only(body.replace("@%p1", "@!%p1")).units == 3


def test_an_address_that_depends_on_loaded_values_is_unknown():
    body = "ld.global.b32 %r4, [%rd1]; mul.wide.s32 %rd3, %r4, 4; add.s64 %rd4, %rd2, %rd3; ld.global.b32 %r5, [%rd4];"
    told = patterns(parse(HEAD + body), ("pointer", "pointer", 4096))
    assert [each.access.address for each in told] == ["[%rd1]"]


def test_arguments_that_do_not_fit_the_parameters_are_not_believed():
    assert patterns(parse(HEAD + "ld.global.b32 %r4, [%rd1];"), ()) == []
    assert patterns(parse(HEAD + "ld.global.b32 %r4, [%r2];"), ("pointer", "pointer", "pointer")) == []


def test_a_stride_of_128_bytes_in_shared_memory_meets_one_bank():
    pattern = only("shl.b32 %r3, %r1, 7; mov.b32 %r4, global_smem; add.s32 %r5, %r4, %r3; ld.shared.b32 %r6, [%r5];")
    assert (pattern.units, pattern.least) == (32, 1)


def test_rows_of_128_bytes_conflict_and_swizzled_ones_do_not():
    rows = "shl.b32 %r3, %r1, 7; "
    swizzled = "shl.b32 %r3, %r1, 7; and.b32 %r4, %r1, 7; shl.b32 %r5, %r4, 4; xor.b32 %r3, %r3, %r5; "
    load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10,%r11,%r12,%r13}, [%r3];"
    assert (only(rows + load).units, only(rows + load).least) == (32, 4)
    assert (only(swizzled + load).units, only(swizzled + load).least) == (4, 4)


def test_neighbouring_words_and_a_broadcast_are_free_of_conflicts():
    assert only("shl.b32 %r3, %r1, 2; st.shared.b32 [%r3], %r1;").units == 1
    assert only("ld.shared.b32 %r6, [global_smem+64];").units == 1
    wide = only("shl.b32 %r3, %r1, 4; st.shared.v4.b32 [%r3], {%r1,%r1,%r1,%r1};")
    assert (wide.units, wide.least) == (4, 4)


def test_an_asynchronous_copy_is_a_load_and_a_store():
    program = parse(HEAD + "cp.async.cg.shared.global [ %r3 + 0 ], [ %rd1 + 0 ], 0x10, %r9;")
    assert [(each.space, each.store, each.bytes) for each in program.accesses] == [
        ("global", False, 16),
        ("shared", True, 16),
    ]
    assert program.copies == ["cp.async"]


def test_the_widest_access_is_named_by_its_bytes():
    accesses = parse(
        "ld.global.b16 %rs1, [%rd1]; ld.global.v2.b64 {%rd2,%rd3}, [%rd1]; st.global.b8 [%rd1], %rs1;"
    ).accesses
    assert widest(accesses, store=False) == 16
    assert widest(accesses, store=True) == 1
    assert widest([], store=True) == 0


@pytest.mark.parametrize(
    ("code", "family"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}, {%r2}, {%r3}, {%r1};", ["mma.sync"]),
        ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%r1}, %rd1, %rd2, 1, 1, 1, 0, 0;", ["wgmma"]),
        ("@%p1 tcgen05.mma.cta_group::1.kind::f16 [ %r1 + 0 ], %rd1, %rd2, %r3, %p2;", ["tcgen05"]),
        ("fma.rn.f32 %r1, %r2, %r3, %r4;", []),
    ],
)
def test_families_of_tensor_core_instructions_are_told_apart(code, family):
    assert parse(code).tensor_cores == family


def test_the_copy_engine_is_seen():
    copy = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];"
    assert parse(copy).copies == ["TMA"]


def test_inlined_code_belongs_to_the_submissions_line():
    text = """\
	.loc	1 31 16                         // softmax.py:31:16
	ld.global.b32 %r1, [%rd1];
	.loc	2 170 27                        // standard.py:170:27 @[ standard.py:191:40 @[ softmax.py:32:34 ] ]
	max.f32 %r2, %r1, %r1;
"""
    places = [(each.opcode, each.file, each.line) for each in parse(text, "softmax.py").instructions]
    assert places == [("ld.global.b32", "softmax.py", 31), ("max.f32", "softmax.py", 32)]


@given(st.text(alphabet="ld.global%r1,[]{}+0x9;@!\n stmovuwideb32cvtshrbfe-/", max_size=300))
def test_any_text_is_read_without_an_error(text):
    patterns(parse(HEAD + text), ("pointer", 5, None))


@given(
    st.sampled_from(
        ["shl.b32", "shr.u64", "mul.wide.s32", "bfe.u32", "bfe.s32", "rem.s32", "cvt.u64.u32", "mad.wide.u16"]
    ),
    st.lists(st.integers(-(2**70), 2**70).map(str), min_size=1, max_size=3),
)
def test_any_operands_are_computed_without_an_error(opcode, operands):
    patterns(parse(f"{HEAD}{opcode} %r9, {', '.join(operands)}; ld.global.b32 %r4, [%r9];"), ("pointer", 2**64 - 1, 0))

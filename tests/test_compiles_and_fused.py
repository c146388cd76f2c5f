"""What the checks `compiles` and `fused` say of submissions: the place, the reason, the numbers."""

from __future__ import annotations

import pytest

from grader import compiles
from grader.failures import TILES_TOO_LARGE, raised_verdict
from grader.reply import ErrorReply
from tests.corpus import compile_small_cases, entries, grade

ENTRIES = {str(entry): entry for entry in entries()}


def verdict(machine, entry, check, dtype="float16"):
    return grade(ENTRIES[entry], machine, [dtype], [check])[check, dtype]


def line_of(entry, code):
    lines = (ENTRIES[entry].folder / ENTRIES[entry].file).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if code in line)


# The entry, the code on the line that is named, and a part of the reason.
REFUSED = [
    ("softmax-break_in_loop", "    break", "unsupported AST node type: Break"),
    ("softmax-set_in_one_branch", "* scale", "scale is not defined"),
    ("softmax-list_of_statistics", ".append(m)", "no attribute append"),
    ("row_sum-integer_zero", "for c0", "total has initial type int32 but is re-assigned to fp32"),
    ("row_sum-plain_helper", "+= widen(x)", "Unsupported function referenced: <function widen>"),
    ("gelu-plain_global", "* (x + CUBIC", "Cannot access global variable CUBIC"),
    ("gelu-sixty_four_warps", "def gelu_kernel", "num_warps=64 makes 2048 threads, a block has at most 1024"),
    ("gelu-misspelt_argument", "BLOCKSIZE=", "missing 1 required positional argument: 'BLOCK_SIZE'"),
    ("matmul_relu-dot_of_eight", "tl.dot(", "K >= 16"),
    ("matmul_relu-lambda_in_kernel", "lambda v", "unsupported AST node type: Lambda"),
    ("matmul_relu-three_warps", "num_warps=3", "num_warps must be a power of 2"),
    ("matmul_relu-deep_pipeline", "def matmul_relu_kernel", "out of resource: shared memory, Required: "),
]


@pytest.mark.parametrize(("entry", "code", "reason"), REFUSED, ids=[entry for entry, _, _ in REFUSED])
def test_a_kernel_that_does_not_compile_is_reported_at_its_line_with_the_reason(machine, entry, code, reason):
    found = verdict(machine, entry, "compiles")
    assert found.status == "compile_failed"
    assert found.message.startswith(f"{ENTRIES[entry].file}:{line_of(entry, code)}: ")
    assert reason in found.message
    assert "for sm_80 (nor for sm_90)" in found.message
    assert f"{ENTRIES[entry].exercise} float16" in found.message
    assert ("block sizes" if "shared memory" in reason else "more lenient than the compiler") in found.hint


def test_too_much_shared_memory_says_how_much_and_the_limit(machine):
    found = verdict(machine, "matmul_relu-deep_pipeline", "compiles")
    refused = found.evidence["refused"]
    assert [kernel["target"] for kernel in refused] == [80, 90]
    assert {kernel["stage"] for kernel in refused} == {"launch"}
    for kernel, limit in zip(refused, (166912, 232448), strict=True):
        assert f"Required: {kernel['shared_bytes']}, Hardware limit: {limit}" in kernel["error"]
        assert kernel["shared_bytes"] > limit
    assert "could not be launched" in found.message


def test_a_launch_with_too_much_shared_memory_has_the_same_hint_on_a_gpu():
    message = "out of resource: shared memory, Required: 238080, Hardware limit: 232448."
    error = ErrorReply(type="OutOfResources", bases=["TritonError", "Exception"], message=message, frames=[])
    assert raised_verdict(error, {}).hint == TILES_TOO_LARGE


def test_compiled_kernels_are_facts_of_both_targets(machine):
    found = verdict(machine, "gelu-right_libdevice", "compiles")
    assert found.passed
    assert {kernel["target"] for kernel in found.evidence["kernels"]} == {80, 90}
    assert all(kernel["registers"] > 0 and kernel["num_warps"] == 2 for kernel in found.evidence["kernels"])


TOO_MUCH = {
    "matmul_relu-relu_in_second_kernel": (
        "2 launches move 10240 bytes; allowed are 1 and ",
        "read 1.5 × the bytes of the input and write 2 × those of the output.",
    ),
    "gelu-tanh_in_first_kernel": (
        "2 launches move 57344 bytes; allowed are 1 and ",
        "read 4 × the bytes of the input and write 3 × ",
    ),
    "gelu-zeroed_result": ("2 launches move 24576 bytes", "PyTorch moves 8192 bytes beside them (zeros_like ×1)"),
    "gelu-cast_before": ("2 launches move 49152 bytes", "PyTorch moves 24576 bytes beside them (_to_copy ×1)"),
    "softmax-three_launches": (
        "3 launches move 65856 bytes; allowed are 1 and ",
        "read 3 × the bytes of the input and write 1 × ",
    ),
    "row_sum-reads_twice": (
        "1 launch moves 32800 bytes",
        "read 2 × the bytes of the input and write 1 × those of the output.",
    ),
}


@pytest.mark.parametrize("entry", TOO_MUCH)
def test_too_much_traffic_says_launches_bytes_and_passes(machine, entry):
    message, hint = TOO_MUCH[entry]
    found = verdict(machine, entry, "fused")
    assert found.status == "too_slow"
    assert found.message.startswith(message)
    assert f"× the least, {found.evidence['least_bytes']}) — {ENTRIES[entry].exercise} float16" in found.message
    assert hint in found.hint
    assert found.case


@pytest.mark.parametrize("entry", ["row_sum-right_contiguous", "gelu-cast_before"])
def test_copies_that_pytorch_does_not_make_cost_nothing(machine, entry):
    found = verdict(machine, entry, "fused", "float32")
    assert found.passed
    assert found.evidence["launches_with_torch"] == 1
    assert found.evidence["bytes_moved"] == found.evidence["least_bytes"]


@pytest.mark.parametrize(
    ("entry", "statuses", "says"),
    [
        ("endless_loop", ("timed_out", "raised"), "had not finished after 2 s"),
        ("os_exit_zero", ("crashed", "raised"), "ended the process with exit status 0"),
        ("import_error", ("import_failed",), ""),
        ("raises", ("raised",), "ValueError"),
        ("not_implemented", ("not_implemented",), ""),
        ("misspelt_entry", ("import_failed",), "softmax"),
    ],
)
def test_a_misbehaving_submission_is_compiled_without_harm(machine, monkeypatch, entry, statuses, says):
    monkeypatch.setattr(compiles, "TIMEOUT_S", 2.0 if entry == "endless_loop" else 60.0)
    found = verdict(machine, f"softmax-{entry}", "compiles", "float32")
    assert found.status in statuses, found.message
    assert says in found.message


def test_a_kernel_in_a_second_file_is_compiled(machine):
    assert compile_small_cases(ENTRIES["softmax-helper_beside"], machine, "float16", target=90).passed

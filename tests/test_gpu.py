"""Grading on a CUDA device. All of it is skipped in one place where there is none."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import torch
import triton

import reference
from reference.exercise import Case, TensorSpec

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

from grader.arena import Arena, find_damage, logical_inputs, read_output
from grader.assembler import ASSEMBLED_WRONG
from grader.compare import default_tolerance
from grader.gpu import GpuMemory, check_health
from grader.grading import Grading
from grader.judge import Caller, Target
from grader.judging import Selection
from grader.machine import Machine
from grader.rubric import Limits
from grader.submission import Submission
from grader.verdict import Status, Verdict
from reference.harness import HARNESS_CHECKS
from tests import exploits
from tests.corpus import FOLDER, ROOT, rubric_for

TIMEOUT_S = 20.0
WRONGLY_ASSEMBLED = (
    "flash_attention/strided/bfloat16/q:1x1x140x24:normal:sliced,k:1x1x140x24:normal:transposed_padded,"
    "v:1x1x140x24:shifted:expanded,bias:1x1x140x140:normal:padded/33554431/causal=True"
)
CASE = Case("gelu", "aligned", "float32", (TensorSpec("x", (64, 64)),))
KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    y = x / (1.0 + tl.exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=at < n)

def right(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
"""


@pytest.fixture(scope="module")
def machine():
    started = Machine(Limits(memory_mib=4096), "cuda")
    yield started
    started.close()


def caller_of(machine: Machine, folder: Path, body: str, timeout_s: float = TIMEOUT_S) -> Caller:
    """A caller of a submission made of the kernel above and a `gelu`."""
    (folder / "gelu.py").write_text(KERNEL + textwrap.dedent(body))
    assert machine.gpu is not None
    target = Target(reference.load("gelu"), Submission(folder).sources("gelu.py"), "gelu.py", "gelu",
                    tf32=True, case_timeout_s=timeout_s, device="cuda")  # fmt: skip
    return Caller(machine.gpu, target)


def judge(machine: Machine, folder: Path, body: str, case: Case = CASE, timeout_s: float = TIMEOUT_S) -> Verdict:
    with caller_of(machine, folder, body, timeout_s) as caller:
        return caller.judge(case, default_tolerance(case.dtype, 1, tf32=True))


RIGHT = """
    def gelu(x):
        return right(x.contiguous())
    """


def test_a_case_survives_the_arena_in_device_memory():
    arena = Arena(GpuMemory(1 << 20))
    try:
        laid = arena.lay(Case("gelu", "strided", "float16", (TensorSpec("x", (5, 33), "normal", "padded"),)), 1024)
        seen = arena.read(laid)
        assert seen == laid.written
        assert find_damage(laid, seen) is None
        placed = laid.inputs[0]
        flat = torch.frombuffer(bytearray(seen), dtype=torch.float16)
        view = torch.as_strided(flat, placed.spec.shape, placed.strides, placed.view_offset // 2)
        case = Case("gelu", "strided", "float16", (placed.spec,))
        assert torch.equal(view.to(torch.float64), logical_inputs(case)[0])
        poison = torch.frombuffer(bytearray(read_output(laid, seen, [1024])[0]), dtype=torch.float16)
        assert bool(torch.isnan(poison).all())
    finally:
        arena.close()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_right_kernel_passes_in_each_dtype(machine, tmp_path, dtype):
    verdict = judge(machine, tmp_path, RIGHT, Case("gelu", "ragged", dtype, (TensorSpec("x", (7, 37)),)))
    assert verdict.status is Status.PASSED, verdict.message
    assert verdict.evidence["launches"], "launches are counted on a GPU as well"


def test_a_store_past_an_input_is_out_of_bounds(machine, tmp_path):
    body = """
        def gelu(x):
            y = right(x)
            kernel[(1,)](x, x.as_strided((1,), (1,), 0), 0, BLOCK=16)
            past = torch.as_strided(x, (16,), (1,), x.storage_offset() + x.numel())
            kernel[(1,)](x, past, 16, BLOCK=16)
            return y
        """
    verdict = judge(machine, tmp_path, body)
    assert verdict.status is Status.OUT_OF_BOUNDS
    assert "memory next to the input 'x' was overwritten" in verdict.message


def test_a_load_without_a_mask_that_does_no_harm_here_is_seen_by_the_interpreter(machine):
    grading = Grading(rubric_for("gelu", "no_load_mask.py"), Submission(FOLDER / "gelu"), machine)
    item = next(item for item in grading.items if item.check == "ragged" and item.dtype == "float32")
    verdict = grading.grade(item).verdict
    grading.close()
    assert verdict.status is Status.OUT_OF_BOUNDS
    assert "load outside 'x_ptr'" in verdict.message


def test_what_the_assembler_has_wrong_passes(machine, tmp_path):
    """Blocks of 32 dimensions, which the solution avoids: ptxas 12.8 makes wrong code of them here."""
    source = (ROOT / "reference/solutions/flash_attention.py").read_text()
    (tmp_path / "flash_attention.py").write_text(source.replace("return 64 if power == 32 else power", "return power"))
    selection = Selection(reproduce=WRONGLY_ASSEMBLED)
    grading = Grading(rubric_for("flash_attention", "flash_attention.py"), Submission(tmp_path), machine, selection)
    (item,) = grading.items
    verdict = grading.grade(item).verdict
    grading.close()
    assert verdict.passed, verdict.message
    on_hopper = torch.cuda.get_device_capability() == (9, 0)
    assert (ASSEMBLED_WRONG in verdict.staff) == (on_hopper and triton.knobs.nvidia.ptxas.version.startswith("12.8"))


def test_a_changed_input_is_seen(machine, tmp_path):
    body = """
        def gelu(x):
            y = right(x)
            x.zero_()
            return y
        """
    assert judge(machine, tmp_path, body).status is Status.MODIFIED_INPUT


def test_an_unwritten_output_is_not_finite(machine, tmp_path):
    body = """
        def gelu(x):
            kernel[(1,)](x, x, 0, BLOCK=16)
            return torch.empty_like(x)
        """
    assert judge(machine, tmp_path, body).status is Status.NOT_FINITE


def test_an_illegal_address_costs_one_worker_and_not_the_device(machine, tmp_path):
    body = """
        @triton.jit
        def wild(x_ptr, n):
            tl.store(x_ptr + (1 << 44) + tl.program_id(0).to(tl.int64) * 4096, 1.0)

        def gelu(x):
            if x.shape[0] == 64:
                wild[(64,)](x, 0)
            return right(x)
        """
    with caller_of(machine, tmp_path, body) as caller:
        tolerance = default_tolerance("float32", 1, tf32=True)
        first = caller.judge(CASE, tolerance)
        assert first.status is Status.OUT_OF_BOUNDS, first.message
        second = caller.judge(Case("gelu", "aligned", "float32", (TensorSpec("x", (32, 64)),)), tolerance)
        assert second.status is Status.PASSED, second.message
    check_health()


def test_a_kernel_that_does_not_end_is_timed_out(machine, tmp_path):
    body = """
        @triton.jit
        def endless(flag_ptr):
            while tl.atomic_add(flag_ptr, 0) == 0:
                pass

        def gelu(x):
            endless[(1,)](torch.zeros(1, dtype=torch.int32, device=x.device))
            return right(x)
        """
    verdict = judge(machine, tmp_path, body, timeout_s=8.0)
    assert verdict.status is Status.TIMED_OUT, verdict.message
    check_health()
    assert judge(machine, tmp_path, RIGHT).status is Status.PASSED


def test_more_memory_than_the_device_has_is_out_of_memory(machine, tmp_path):
    body = """
        def gelu(x):
            torch.empty(1 << 44, dtype=torch.uint8, device=x.device)
            return right(x)
        """
    verdict = judge(machine, tmp_path, body)
    assert verdict.status is Status.OUT_OF_MEMORY, verdict.message
    assert judge(machine, tmp_path, RIGHT).status is Status.PASSED


@pytest.fixture(scope="module")
def speed_machine():
    """A machine of its own for attempts, one of which may have damaged it; see `benchmarks/gpu_exploits.py`."""
    started = Machine(Limits(memory_mib=4096), "cuda")
    yield started
    started.close()


@pytest.mark.parametrize("attempt", list(exploits.attempts()), ids=str)
def test_an_attempt_earns_no_points_and_an_innocent_one_does(attempt, speed_machine, tmp_path):
    verdicts = exploits.grade(attempt.stage(tmp_path), attempt.exercise, attempt.dtype, speed_machine)
    assert attempt.complaint(verdicts["speed"]) is None, verdicts["speed"].message


@pytest.mark.parametrize(
    ("folder", "file", "failing"),
    [
        (ROOT / "reference/solutions", "benchmarking.py", set()),
        (FOLDER / "benchmarking", "right_events.py", set()),
        (FOLDER / "benchmarking", "right_host_clock.py", set()),
        (FOLDER / "benchmarking", "right_one_interval.py", set()),
        (FOLDER / "benchmarking", "no_warmup.py", {"warmup"}),
        (FOLDER / "benchmarking", "no_synchronise.py", {"asynchronous", "side_stream"}),
        (FOLDER / "benchmarking", "events_of_one_stream.py", {"side_stream"}),
        (FOLDER / "benchmarking", "sum_of_trials.py", {"average"}),
        (FOLDER / "benchmarking", "swallows_exception.py", {"raises"}),
        (FOLDER / "benchmarking", "profile_with_runtime_calls.py", {"profile"}),
        (FOLDER / "benchmarking", "range_left_open.py", {"nvtx"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_harness_is_judged_by_what_the_gpu_took(machine, folder, file, failing):
    grading = Grading(rubric_for("benchmarking", file), Submission(folder), machine)
    verdicts = {item.check: grading.grade(item).verdict for item in grading.items}
    grading.close()
    assert list(verdicts) == list(HARNESS_CHECKS)
    failed = {
        check: f"{verdict.status}: {verdict.message}" for check, verdict in verdicts.items() if not verdict.passed
    }
    assert set(failed) == failing, failed

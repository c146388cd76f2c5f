"""`grader inspect` on submissions, without a GPU: what the compiler made of them, and what is said of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.advice import advice
from grader.inspection import Inspector, KernelFacts
from grader.machine import Machine
from grader.report.inspection import excerpt
from grader.rubric import load_rubric
from grader.submission import Submission

ROOT = Path(__file__).parent.parent.parent
SUBMISSIONS = ROOT / "tests/submissions"
SOLUTIONS = ROOT / "reference/solutions"
RUBRIC = load_rubric(ROOT / "rubric.yaml").rubric


@pytest.fixture(scope="module")
def machine():
    started = Machine(RUBRIC.limits, "cpu")
    yield started
    started.close()


@pytest.fixture
def inspected(machine, tmp_path):
    """Inspects `name` of the corpus, or a source given as text, as the exercise's file."""

    def run(exercise, name, gpus=("H200",), max_configs=1, source=None):
        if source is None:
            shutil.copy(SUBMISSIONS / exercise / f"{name}.py", tmp_path / f"{exercise}.py")
        else:
            (tmp_path / f"{exercise}.py").write_text(source)
        return Inspector(RUBRIC, Submission(tmp_path), machine, gpus, max_configs).run([exercise])

    return run


def test_a_row_in_one_block_is_read_in_16_bytes_a_thread_and_coalesced(inspected):
    kernels, failures = inspected("softmax", "right_one_block", ("A100", "H200"))
    assert not failures
    facts = kernels[0].facts
    benchmarks = RUBRIC.exercises["softmax"].speed
    rows = benchmarks[0].sizes[0][0]
    assert (facts.exercise, facts.benchmark, facts.gpu) == ("softmax", str(benchmarks[0]), "A100")
    assert facts.grid == [rows, 1, 1]
    assert facts.registers > 0
    assert facts.spills == 0
    assert (facts.load_bytes, facts.store_bytes, facts.accesses_told) == (16, 16, True)
    assert not any(access.wasteful for access in facts.global_accesses)
    assert facts.waves == pytest.approx(rows / (facts.blocks_per_multiprocessor * 108))
    assert facts.tensor_cores == facts.copies == []
    # Each benchmark with every GPU, in the order that was asked for.
    assert [(each.facts.benchmark, each.facts.gpu) for each in kernels] == [
        (str(benchmark), gpu) for benchmark in benchmarks for gpu in ("A100", "H200")
    ]


def test_reading_columns_is_called_scattered_at_its_line_with_the_sectors(inspected):
    kernels, _ = inspected("softmax", "over_columns")
    facts = kernels[0].facts
    worst = max(facts.global_accesses, key=lambda access: access.units)
    assert (worst.units, worst.least, worst.bytes) == (32, 4, 4)
    source = (SUBMISSIONS / "softmax/over_columns.py").read_text().splitlines()
    line = int(worst.place.removeprefix("softmax.py:"))
    assert "tl.load" in source[line - 1]
    assert (
        f"softmax.py:{line}: a warp's load of 4 bytes a thread touches 32 sectors of 32 bytes where 4 would"
        in "\n".join(advice(facts))
    )


def test_a_kernel_that_reads_one_element_a_thread_is_told_of_16_bytes(inspected):
    kernels, _ = inspected("softmax", "one_warp_per_row")
    facts = kernels[0].facts
    assert (facts.load_bytes, facts.limited_by) == (4, "blocks")
    assert any("The widest load takes 4 bytes a thread; 16 is the most" in line for line in advice(facts))


def test_host_code_sees_the_gpu_that_is_asked_for(inspected):
    source = (SOLUTIONS / "matmul_relu.py").read_text()
    kernels, failures = inspected("matmul_relu", "", ("A100", "H100", "H100 PCIe", "B200"), source=source)
    assert not failures
    by_gpu = {each.facts.gpu: each.facts for each in kernels if each.facts.benchmark.startswith("4096")}
    assert (by_gpu["A100"].tensor_cores, by_gpu["A100"].copies) == (["mma.sync"], ["cp.async"])
    assert (by_gpu["H100"].tensor_cores, by_gpu["H100"].copies) == (["wgmma"], ["TMA"])
    assert (by_gpu["B200"].tensor_cores, by_gpu["B200"].copies) == (["tcgen05"], ["TMA"])
    # One program a multiprocessor: the solution asks torch for their number.
    assert [by_gpu[gpu].grid[0] for gpu in ("H100", "H100 PCIe", "B200")] == [132, 114, 148]
    assert by_gpu["B200"].tensor_memory_columns > 0
    assert by_gpu["A100"].note == "the first of 4 configurations was compiled"
    # Triton's buffers are swizzled, so nothing that can be told conflicts.
    assert by_gpu["A100"].shared_accesses
    assert not any(access.wasteful for access in by_gpu["A100"].shared_accesses)


def test_as_many_configurations_as_asked_for_are_shown(inspected):
    kernels, _ = inspected("gelu", "right_autotuned", max_configs=2)
    assert len({each.facts.config for each in kernels}) == 2
    assert all("configurations" in each.facts.note or not each.facts.note for each in kernels)


def test_a_kernel_that_does_not_compile_is_shown_with_its_line(inspected):
    kernels, _ = inspected("softmax", "set_in_one_branch")
    facts = kernels[0].facts
    assert facts.registers is None
    assert (facts.error, facts.place.partition(":")[0]) == ("scale is not defined", "softmax.py")
    assert advice(facts) == []


NO_KERNEL = {
    "torch_builtin": ("fallback", "no Triton kernel was launched"),
}


@pytest.mark.parametrize("name", NO_KERNEL)
def test_a_submission_without_kernels_says_so(inspected, name):
    kernels, failures = inspected("softmax", name)
    assert not kernels
    assert (failures[0].status, failures[0].message) == NO_KERNEL[name]


def test_host_code_that_needs_values_is_told_that_there_are_none(inspected):
    source = "import torch\n\ndef softmax(x):\n    if x.max().item() > 0:\n        return x\n    return -x\n"
    kernels, failures = inspected("softmax", "", source=source)
    assert not kernels
    assert failures[0].message.startswith("softmax.py:4: ")
    assert "inspecting calls with tensors that have a shape and no values" in failures[0].message


def test_the_excerpt_shows_source_lines_with_what_their_instructions_do(inspected):
    kernels, _ = inspected("softmax", "right_one_block")
    lines = list(excerpt(kernels[0]))
    load = next(index for index, line in enumerate(lines) if "tl.load" in line)
    assert lines[load].startswith("  softmax.py:")
    assert "ld.global.v4.b32" in lines[load + 1]
    assert "global load, 16 bytes a thread, coalesced" in lines[load + 1]


def facts_of(**changed):
    usual = {
        "exercise": "softmax", "benchmark": "", "gpu": "A100", "target": 80, "multiprocessors": 108, "kernel": "k",
        "config": None, "constants": {}, "place": "", "error": "", "note": "", "num_warps": 4, "num_stages": 3,
        "grid": [108, 1, 1], "registers": 32, "spills": 0, "stack_bytes": 0, "shared_bytes": 0,
        "tensor_memory_columns": 0, "blocks_per_multiprocessor": 16, "limited_by": "warps", "occupancy": 1.0,
        "waves": 1.0, "last_wave_idle": 0.0, "lost": 0.0, "load_bytes": 16, "store_bytes": 16, "accesses_told": True,
        "global_accesses": [], "shared_accesses": [], "tensor_cores": [], "dots": 0, "copies": [],
    }  # fmt: skip
    return KernelFacts(**{**usual, **changed})


CONFLICT = {"place": "k.py:7", "store": False, "bytes": 4, "units": 32, "least": 1, "count": 1}
ADVICE = [
    ({}, ""),
    ({"blocks_per_multiprocessor": 0, "spills": 7}, ""),
    ({"spills": 7, "registers": 255}, "7 of a thread's values are spilled to local memory (255 registers"),
    (
        {"occupancy": 0.19, "blocks_per_multiprocessor": 3, "limited_by": "registers"},
        "holds 19% of the warps it could (blocks: 3",
    ),
    (
        {
            "grid": [120, 1, 1],
            "blocks_per_multiprocessor": 1,
            "waves": 120 / 108,
            "last_wave_idle": 96 / 108,
            "lost": 48 / 108,
        },
        "120 blocks are 1.11 waves of 108: the last one leaves 89% of the GPU idle, 44% of 2 waves",
    ),
    (
        {"grid": [54, 1, 1], "waves": 0.03, "last_wave_idle": 0.5, "lost": 0.5},
        "The grid has 54 blocks for 108 multiprocessors: 50% of them get nothing to do",
    ),
    ({"dots": 1}, "tl.dot runs without tensor cores"),
    ({"dots": 1, "tensor_cores": ["mma.sync"], "target": 90, "copies": ["cp.async"]}, "uses mma.sync"),
    ({"dots": 1, "tensor_cores": ["wgmma"], "target": 90}, "loaded through registers"),
    ({"shared_accesses": [CONFLICT]}, "k.py:7: a warp's shared-memory load of 4 bytes a thread takes 32 passes"),
]


@pytest.mark.parametrize(("changed", "says"), ADVICE, ids=[says[:30] for _, says in ADVICE])
def test_advice_comes_with_its_numbers_and_only_where_there_is_cause(changed, says):
    found = advice(facts_of(**changed))
    assert len(found) == (1 if says else 0)
    assert says in "".join(found)


def grader(*arguments):
    command = [sys.executable, "-P", "-m", "grader.cli", "inspect", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_the_command_prints_a_table_and_writes_json(tmp_path):
    done = grader("gelu", "--submission", SOLUTIONS, "--gpu", "t4", "--gpu", "H100", "--json", tmp_path / "found.json")
    assert done.returncode == 0, done.stderr
    assert "gelu_kernel (SAME_ORDER=True, BLOCK=1024, num_warps=4)" in done.stdout
    assert "16/16 B coalesced" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["version"] == "grader.inspection/1"
    assert [kernel["gpu"] for kernel in found["kernels"]] == ["T4", "H100"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nope"], "nope: the rubric has no such exercise with kernels; it has gelu, softmax"),
        (["measuring"], "measuring: the rubric has no such exercise with kernels; it has gelu, softmax"),
        (["gelu", "--gpu", "H300"], "--gpu H300: this GPU is not known; known are B200"),
        (["gelu", "--submission", "nowhere"], "nowhere: does not exist"),
        (["gelu", "--json", "nowhere/f.json"], "--json nowhere/f.json: there is no folder"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, says):
    done = grader(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {says}")
    assert done.stderr.count("\n") == 1


def test_a_starter_that_is_not_written_gives_status_1():
    done = grader("softmax", "--gpu", "H200")
    assert done.returncode == 1
    assert "softmax: not_implemented: softmax is not written yet" in done.stdout

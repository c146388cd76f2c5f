"""`grader profile` as far as it goes without a GPU: traces, rates, commands, sweeps, and what is said."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import reference
from grader import profiler, profiling, sweep
from grader.errors import SelectionError
from grader.grading import Grading
from grader.hardware import GPUS
from grader.judging import Selection, timed_case
from grader.machine import Machine
from grader.players import baseline_sources, range_name
from grader.profiling import ProfilingError, Tool
from grader.rubric import load_rubric
from grader.submission import Submission
from reference.exercise import Case, Cost, TensorSpec

ROOT = Path(__file__).parent.parent.parent
LOADED = load_rubric(ROOT / "rubric.yaml")
RUBRIC = LOADED.rubric
SOFTMAX = reference.load("softmax")
CASE = Case("softmax", "speed", "float32", (TensorSpec("x", (8192, 4096)),))

# In the form of torch.profiler's export_chrome_trace.
TRACE = {
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::amax", "ts": 1, "dur": 50.0, "args": {}},
        {"ph": "X", "cat": "kernel", "name": "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
         "at::native::MaxNanFunctor<float>, unsigned int, float, 4, 4> >(x)", "ts": 5, "dur": 40.0,
         "args": {"grid": [8192, 1, 1], "block": [32, 16, 1], "registers per thread": 32, "shared memory": 16}},
        *({"ph": "X", "cat": "kernel", "name": "softmax_kernel", "ts": ts, "dur": 80.0,
           "args": {"grid": [8192, 1, 1], "block": [512, 1, 1], "registers per thread": 24, "shared memory": 64}}
          for ts in (100, 200)),
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "ts": 5},
    ]
}  # fmt: skip


def test_a_trace_gives_kernels_with_time_share_grid_and_what_the_name_says():
    kernels = profiling.read_trace(json.dumps(TRACE))
    assert [(each.name[:14], each.launches, each.time_us, each.share) for each in kernels] == [
        ("softmax_kernel", 2, 160.0, 0.8),
        ("void at::nativ", 1, 40.0, 0.2),
    ]
    assert kernels[0].grid == [8192, 1, 1]
    assert (kernels[0].registers, kernels[0].shared_bytes) == (24, 64)
    assert kernels[1].says == "PyTorch, reduction: MaxNan, float32"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"traceEvents": 3}', '{"traceEvents": [{"cat": "kernel", "ph": "X"}]}']
)
def test_a_trace_that_is_none_is_one_clear_error(text):
    with pytest.raises(ProfilingError, match="the profiler's trace can't be read"):
        profiling.read_trace(text)


def test_the_roofline_says_what_bounds_a_call():
    bound_by_memory = profiling.roofline(Cost(480_000_000, 1_000_000), "float32", 125.0, GPUS["H200"])
    assert bound_by_memory.bound == "memory"
    assert bound_by_memory.gb_s == pytest.approx(3840)
    assert bound_by_memory.share == pytest.approx(0.8)
    product = profiling.roofline(Cost(3 * 2 * 4096**2, 2 * 4096**3), "bfloat16", 205.0, GPUS["H200"])
    assert product.bound == "arithmetic"
    assert product.intensity == pytest.approx(4096 / 3)
    assert product.ridge == pytest.approx(990_000 / 4800)
    assert product.tflop_s == pytest.approx(2 * 4096**3 / 205e6)


def test_the_range_is_named_as_it_is_when_it_is_graded():
    name = range_name(CASE, "student")
    assert name == "softmax.student.8192x4096.float32"
    assert "/" not in name


def test_ncu_looks_at_exactly_the_graded_range(tmp_path):
    command = profiling.profiler_command(Tool.NCU, "/opt/ncu", "softmax.student.8x8.float32", ["python", "x"], tmp_path)
    assert command == [
        "/opt/ncu", "--nvtx", "--nvtx-include", "grader@softmax.student.8x8.float32/", "--clock-control", "none",
        "python", "x",
    ]  # fmt: skip


def test_nsys_starts_and_ends_with_the_range(tmp_path):
    command = profiling.profiler_command(Tool.NSYS, "nsys", "a.student.8x8.float32", ["python"], tmp_path)
    assert "--nvtx-capture=a.student.8x8.float32@grader" in command
    assert "--capture-range=nvtx" in command
    assert command[-1] == "python"


def test_the_child_gets_the_submissions_file_and_the_cases_arguments(tmp_path):
    wanted = profiling.request("range", tmp_path / "softmax.py", "softmax", "label", SOFTMAX, [CASE], tmp_path)
    assert wanted["cases"] == [[{"tensor": {"dtype": "float32", "shape": [8192, 4096]}}]]
    command = profiling.child_command(wanted)
    assert command[1:4] == ["-P", "-m", "grader.worker.profiled"]
    assert json.loads(command[4]) == wanted
    assert str(ROOT) in profiling.shown(command)


def test_options_of_a_case_reach_the_call(tmp_path):
    exercise = reference.load("flash_attention")
    case = profiler.chosen_case(RUBRIC, "flash_attention", None)
    wanted = profiling.request("torch", tmp_path / "f.py", "f", "", exercise, [case], tmp_path)
    assert [each.get("value", "tensor") for each in wanted["cases"][0]] == ["tensor"] * 3 + [True, None, False]


def test_a_tool_that_is_missing_is_named_with_what_it_belongs_to(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(profiling, "_WHERE", {"ncu": ("/nowhere/*/ncu",)})
    with pytest.raises(ProfilingError, match=r"ncu is not on PATH nor in /nowhere/.*Nsight Compute"):
        profiling.find_tool(Tool.NCU)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo '==ERROR== ERR_NVGPUCTRPERM - no permission'", "the driver lets only administrators"),
        ("echo '==WARNING== No kernels were profiled.'", "no kernel ran inside the range"),
        ("exit 7", "the profiler ended with exit status 7"),
    ],
)
def test_what_a_profiler_complains_of_is_explained(script, says):
    with pytest.raises(ProfilingError, match=says):
        profiling.run_profiler(["sh", "-c", script])


def test_what_a_profiler_prints_is_passed_on(capfd):
    assert profiling.run_profiler(["sh", "-c", "echo Duration us 70.1"]) == "Duration us 70.1\n"
    assert capfd.readouterr().out == "Duration us 70.1\n"


def test_a_call_that_fails_is_told_with_the_submissions_line(tmp_path):
    (tmp_path / "softmax.py").write_text("def softmax(x):\n    return x\n\nraise ValueError('not today')\n")
    wanted = profiling.request("torch", tmp_path / "softmax.py", "softmax", "l", SOFTMAX, [CASE], tmp_path)
    with pytest.raises(ProfilingError, match=r'ValueError: not today \(File ".*softmax.py", line 4'):
        profiling.run_child(profiling.child_command(wanted), 120)


def test_times_that_the_child_did_not_leave_are_one_clear_error(tmp_path):
    with pytest.raises(ProfilingError, match="the child's times can't be read"):
        profiling.read_times(tmp_path / "times.json", 1)
    (tmp_path / "times.json").write_text("[1.5]")
    with pytest.raises(ProfilingError, match="1 times in place of 2"):
        profiling.read_times(tmp_path / "times.json", 2)
    (tmp_path / "times.json").write_text("[1.5, null]")
    assert profiling.read_times(tmp_path / "times.json", 2) == [1.5, None]


@pytest.mark.parametrize(
    ("exercise", "shapes"),
    [
        ("gelu", [(512, 512)]),
        ("matmul_relu", [(512, 512), (512, 512)]),
        ("rmsnorm", [(512, 512), (512,)]),
        ("flash_attention", [(2, 16, 512, 128)] * 3),
    ],
)
def test_a_sweep_scales_the_large_dimensions_and_keeps_the_small(exercise, shapes):
    case = profiler.chosen_case(RUBRIC, exercise, None)
    cases = sweep.sweep_cases(case)
    assert len(cases) == len(sweep.SIZES) == 6
    assert [spec.shape for spec in cases[1].tensors] == shapes
    assert cases[1].options == case.options


def swept():
    cases = sweep.sweep_cases(CASE, (256, 8192))
    return [
        point
        for player, times_us in (("student", [5.0, 140.0]), ("eager", [20.0, None]))
        for point in sweep.points(SOFTMAX, cases, (256, 8192), player, times_us, GPUS["H200"])
    ]


def test_a_sweep_has_rates_and_says_where_memory_did_not_suffice(tmp_path):
    sweep.write_csv(tmp_path / "s.csv", swept())
    rows = list(csv.DictReader((tmp_path / "s.csv").read_text().splitlines()))
    assert [(row["size"], row["player"], row["time_us"]) for row in rows] == [
        ("256", "student", "5"), ("8192", "student", "140"), ("256", "eager", "20"), ("8192", "eager", ""),
    ]  # fmt: skip
    assert float(rows[1]["gb_s"]) == pytest.approx(2 * 8192 * 8192 * 4 / 140e3, rel=1e-3)
    assert float(rows[1]["percent_of_limit"]) == pytest.approx(100 * 2 * 8192 * 8192 * 4 / 4.8e6 / 140, rel=1e-3)


def test_a_sweep_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    sweep.write_plot(tmp_path / "s.png", "softmax", swept())
    data = (tmp_path / "s.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 10_000


def test_baselines_are_profiled_like_submissions(tmp_path):
    baseline_sources("softmax", "builtin").stage(tmp_path)
    code = "import baseline, torch; print(baseline.baseline(torch.zeros(1, 2)).tolist())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[[0.5, 0.5]]\n"


def test_unknown_benchmarks_and_players_are_named():
    names = [str(benchmark) for benchmark in RUBRIC.exercises["softmax"].speed]
    with pytest.raises(SelectionError, match=f"--benchmark x: softmax has {', '.join(names)}"):
        profiler.chosen_case(RUBRIC, "softmax", "x")
    case = profiler.chosen_case(RUBRIC, "softmax", names[-1])
    assert case.tensors[0].shape == RUBRIC.exercises["softmax"].speed[-1].sizes[0]
    with pytest.raises(SelectionError, match="--of liger: softmax has student, eager, builtin, compile"):
        profiler.chosen_player(SOFTMAX, "liger")


@pytest.mark.parametrize("options", [[], ["--tool", "ncu"]])
def test_without_a_gpu_the_command_says_what_there_is_instead(options, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    command = [sys.executable, "-P", "-m", "grader.cli", "profile", "softmax", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: profiling needs an NVIDIA GPU and PyTorch built for CUDA")
    assert "grader inspect softmax" in done.stderr


def test_a_timed_item_names_the_command_that_profiles_it():
    selection = Selection(["softmax"], command=["pytest", "grader", "--submission", "some where"])
    grading = Grading(LOADED, Submission(ROOT / "reference/solutions"), Machine(RUBRIC.limits, "cpu"), selection)
    item = [item for item in grading.items if item.check == "speed"][-1]
    label = range_name(timed_case(item), "student")
    command = shlex.split(grading._judging._profile_command(item, f"grader@{label}/"))
    assert command[:4] == ["ncu", "--nvtx", "--nvtx-include", f"grader@{label}/"]
    graded = command[command.index("pytest") :]
    assert graded[:4] == ["pytest", "grader", "--submission", "some where"]
    assert "--spawn-workers" in graded
    # `grader profile` takes the same case, so that the range has the name that it has when it is timed.
    case = profiler.chosen_case(RUBRIC, "softmax", str(item.benchmark))
    assert range_name(case, "student") == label

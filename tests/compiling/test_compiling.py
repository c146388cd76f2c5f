"""What a GPU's compiler makes of kernels, found without a GPU. The compiling is done in children of this process."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SOURCES = {name: (HERE / "kernels" / f"{name}.py").read_text() for name in ("accepted", "rejected", "split_kernels")}

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

# Kernels that the compiler refuses at a line marked `# here`, and a part of what it says.
REFUSED = {
    "small_dot_kernel": "K >= 16",
    "break_kernel": "unsupported AST node type: Break",
    "continue_kernel": "unsupported AST node type: Continue",
    "return_kernel": "Cannot have `return` statements inside `while` or `for`",
    "one_branch_kernel": "value is not defined",
    "carried_type_kernel": "Loop-carried variable total has initial type int32 but is re-assigned to fp16",
    "carried_shape_kernel": "Loop-carried variable total has initial type",
    "global_kernel": "Cannot access global variable FACTOR",
    "undecorated_kernel": "Unsupported function referenced: <function plain_helper>",
    "torch_kernel": "Unsupported function referenced: <built-in method numel",
    "list_kernel": "append",
    "dict_kernel": "unsupported AST node type: Dict",
    "lambda_kernel": "unsupported AST node type: Lambda",
    "try_kernel": "unsupported AST node type: Try",
    "never_imported_kernel": "math is not defined",
    "runtime_arange_kernel": "arange's arguments must be of type tl.constexpr",
    "odd_arange_kernel": "arange's range must be a power of 2",
    "faulty_helper_kernel": "Shape element 0 must be a power of 2",
    "misuse_of_sum_kernel": "invalid axis 3",
    "static_assert_kernel": "bfloat16 only",
}
# Entry points whose launch is at fault, at the line marked `# launch NAME`: the stage and a part of what is said.
REFUSED_LAUNCHES = {
    "odd_num_warps": ("compile", "num_warps must be a power of 2"),
    "misspelt_keyword": ("compile", "Keyword argument BLOCKS was specified but unrecognised"),
    "missing_argument": ("compile", "fine_kernel() missing 1 required positional argument: 'n'"),
    "long_y_axis": ("launch", "grid y is 70000, the most a GPU takes is 65535"),
    "long_x_axis": ("launch", "grid x is 2147483648, the most a GPU takes is 2147483647"),
    "fractional_grid": ("launch", "the grid: TypeError: 'float' object cannot be interpreted as an integer"),
    "grid_that_raises": ("launch", "the grid: KeyError: 'BLOK'"),
}
CALLS_THAT_END = (
    "compiler_that_crashes",
    "exits_before_any_launch",
    "fails_for_ever",
    "hangs",
    "host_error_before_any_launch",
    "launches_for_ever",
)
OTHER_REFUSED = (
    "odd_instruction_kernel",
    "one_configuration_takes_too_much_shared_memory",
    "parameter_set_twice",
    "too_many_threads",
    "too_much_shared_memory",
    "tuned_faulty_kernel",
)
ACCEPTED_ON_BOTH = (
    "autotune_and_heuristics",
    "device_descriptors_without_an_allocator",  # before the next, which sets one where it is interpreted
    "device_descriptors",
    "float8_dot",
    "forward_and_backward",
    "persistent_grid",
)
ACCEPTED = (
    "atomics",
    "bfloat16_dot",
    "empty_grid",
    "host_code_that_fails_on_what_was_not_computed",
    "host_descriptors",
    "jit_functions_in_closures_and_made_in_the_call",
    "libdevice_functions",
    "more_configurations_than_are_compiled",
    "nested_helper_and_constexpr_global",
    "no_kernel",
    "softmax",
    "spilling",
    "strides_and_alignment_specialise",
)
CASES = [
    ("split", "through_siblings", (90,)),
    *[("accepted", name, (80, 90)) for name in ACCEPTED_ON_BOTH],
    *[("accepted", name, (90,)) for name in ACCEPTED],
    *[("rejected", name, (90,)) for name in (*REFUSED, *REFUSED_LAUNCHES, *OTHER_REFUSED, *CALLS_THAT_END)],
]
# What can be interpreted in no time before it is compiled.
INTERPRETABLE = [
    case for case in CASES if case[1] not in {*REFUSED_LAUNCHES, *CALLS_THAT_END, "spilling", "too_much_shared_memory"}
]


def drive(cases, cache, prelude="nothing", interpret="1"):
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "TRITON_CACHE_DIR": str(cache),
        "TRITON_INTERPRET": interpret,
    }
    command = [sys.executable, str(HERE / "drive.py"), json.dumps(cases), prelude]
    child = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    return {entry: result for (_, entry, _), result in zip(cases, json.loads(child.stdout), strict=True)}


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("triton-cache")


@pytest.fixture(scope="session")
def outcomes(cache):
    return drive(CASES, cache)


@pytest.fixture(scope="session")
def kernels(outcomes):
    return lambda entry: outcomes[entry]["kernels"]


def line_marked(module, mark, function=None):
    lines = SOURCES[module].splitlines()
    first = 0
    if function is not None:
        tree = ast.parse(SOURCES[module])
        first = next(node.lineno for node in tree.body if getattr(node, "name", None) == function)
    return next(number for number, line in enumerate(lines, 1) if number >= first and line.endswith(mark))


# Their own tests say on which target they are refused.
REFUSED_ON_ONE = {"device_descriptors_without_an_allocator", "float8_dot"}


@pytest.mark.parametrize("entry", [name for name in (*ACCEPTED, *ACCEPTED_ON_BOTH) if name not in REFUSED_ON_ONE])
def test_a_kernel_that_a_gpu_takes_is_ok(kernels, entry):
    for kernel in kernels(entry):
        assert (kernel["ok"], kernel["stage"], kernel["error"]) == (True, "ok", "")
        assert kernel["file"] == "accepted.py"
        assert kernel["registers"] > 0
        assert kernel["num_warps"] > 0


def test_the_report_of_a_kernel_names_its_definition_grid_and_resources(kernels):
    (kernel,) = kernels("nested_helper_and_constexpr_global")
    assert kernel["kernel"] == "helper_kernel"
    assert kernel["line"] == line_marked("accepted", "def helper_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):")
    assert (kernel["grid"], kernel["num_warps"], kernel["config"]) == ([4, 2, 3], 8, None)
    assert (kernel["spills"], kernel["stack_bytes"]) == (0, 0)


def test_spilled_registers_are_counted(kernels):
    (kernel,) = kernels("spilling")
    assert kernel["registers"] == 32
    assert kernel["spills"] > 0
    assert kernel["stack_bytes"] > 0


def test_each_target_is_compiled_and_seen_by_host_code(kernels):
    grids = {kernel["target"]: kernel["grid"] for kernel in kernels("persistent_grid")}
    assert grids == {80: [108, 1, 1], 90: [132, 1, 1]}


def test_each_configuration_of_an_autotuner_is_compiled(kernels):
    found = [(each["target"], each["config"], each["grid"]) for each in kernels("autotune_and_heuristics")]
    assert found == [
        (target, f"BLOCK={size}, num_warps={size // 64}, num_ctas=1, num_stages=3", [-(-1000 // size), 1, 1])
        for target in (80, 90)
        for size in (128, 256)
    ]


def test_configurations_beyond_the_bound_are_noted(kernels):
    assert {kernel["note"] for kernel in kernels("more_configurations_than_are_compiled")} == {
        "the first 8 of 12 configurations were compiled"
    }


def test_float8_is_refused_where_the_target_lacks_it(kernels):
    by_target = {kernel["target"]: kernel for kernel in kernels("float8_dot")}
    assert by_target[90]["ok"]
    assert "fp8e4nv not supported in this architecture" in by_target[80]["error"]


def test_device_descriptors_need_an_allocator_only_where_they_use_scratch_memory(kernels):
    by_target = {kernel["target"]: kernel for kernel in kernels("device_descriptors_without_an_allocator")}
    assert by_target[80]["ok"]
    assert by_target[90]["stage"] == "launch"
    assert "call triton.set_allocator before the launch" in by_target[90]["error"]


def test_an_empty_grid_is_no_error(kernels):
    assert [kernel["grid"] for kernel in kernels("empty_grid")] == [[0, 1, 1]]


def test_forward_and_backward_of_an_autograd_function_are_compiled(kernels):
    found = [(kernel["target"], kernel["kernel"]) for kernel in kernels("forward_and_backward")]
    assert found == [(target, kernel) for target in (80, 90) for kernel in ("helper_kernel", "softmax_kernel")]


def test_a_call_without_launches_gives_no_kernels(kernels):
    assert kernels("no_kernel") == []


@pytest.mark.parametrize(("entry", "said"), REFUSED.items(), ids=REFUSED)
def test_what_the_compiler_refuses_is_reported_at_the_line(kernels, entry, said):
    (kernel,) = kernels(entry)
    at = "inner" if entry == "faulty_helper_kernel" else entry
    assert (kernel["kernel"], kernel["ok"], kernel["stage"]) == (entry, False, "compile")
    assert said in kernel["error"]
    assert (kernel["file"], kernel["line"]) == ("rejected.py", line_marked("rejected", "# here", at))


@pytest.mark.parametrize(("entry", "stage", "said"), [(entry, *rest) for entry, rest in REFUSED_LAUNCHES.items()])
def test_a_fault_of_the_launch_is_reported_at_the_launch(kernels, entry, stage, said):
    (kernel,) = kernels(entry)
    assert (kernel["ok"], kernel["stage"], kernel["error"]) == (False, stage, said)
    assert (kernel["file"], kernel["line"]) == ("rejected.py", line_marked("rejected", f"# launch {entry}"))


def test_a_parameter_set_by_launch_and_autotuner_is_reported_after_other_launches(kernels):
    fine, twice = kernels("parameter_set_twice")
    assert fine["ok"]
    assert (twice["ok"], twice["error"]) == (
        False,
        "Conflicting meta-parameters: BLOCK. They are set by the autotuner.",
    )
    assert twice["line"] == line_marked("rejected", "# launch parameter_set_twice")


def test_kernels_of_sibling_files_are_compiled_and_blamed(kernels):
    fine, faulty = kernels("through_siblings")
    assert (fine["kernel"], fine["ok"], fine["file"]) == ("fill_kernel", True, "split_kernels.py")
    assert (faulty["kernel"], faulty["ok"], faulty["file"]) == ("scale_kernel", False, "split_kernels.py")
    assert faulty["line"] == line_marked("split_kernels", "# here")


def test_ptxas_is_quoted_without_its_command(kernels):
    (kernel,) = kernels("odd_instruction_kernel")
    assert kernel["error"].startswith("ptxas: Not a name of any known instruction: 'nonsense'")
    assert "/" not in kernel["error"]
    assert kernel["line"] == line_marked("rejected", "def odd_instruction_kernel(x_ptr, n):")


def test_too_many_threads_are_a_launch_error(kernels):
    (kernel,) = kernels("too_many_threads")
    assert kernel["stage"] == "launch"
    assert kernel["error"] == "num_warps=64 makes 2048 threads, a block has at most 1024"


def test_too_much_shared_memory_is_a_launch_error(kernels):
    (kernel,) = kernels("too_much_shared_memory")
    assert (kernel["ok"], kernel["stage"], kernel["shared_bytes"]) == (False, "launch", 262144)
    assert "shared memory, Required: 262144, Hardware limit: 232448" in kernel["error"]


def test_a_configuration_that_the_autotuner_would_skip_is_forgiven(kernels):
    skipped, works = kernels("one_configuration_takes_too_much_shared_memory")
    assert (skipped["ok"], skipped["stage"], skipped["error"]) == (True, "launch", "")
    assert skipped["note"].startswith("skipped by the autotuner: out of resource: shared memory")
    assert (works["ok"], works["stage"], works["note"]) == (True, "ok", "")


def test_a_compile_error_in_a_tuned_kernel_is_an_error_in_each_configuration(kernels):
    found = [(kernel["ok"], kernel["stage"]) for kernel in kernels("tuned_faulty_kernel")]
    assert found == [(False, "compile"), (False, "compile")]


def test_a_crash_of_the_compiler_is_reported_with_what_was_compiled_before(kernels):
    before, crashed = kernels("compiler_that_crashes")
    assert before["ok"]
    assert (crashed["kernel"], crashed["error"]) == ("crashing_kernel", "the compiler crashed (SIGSEGV) on this kernel")


def test_a_host_error_before_any_launch_fails_the_call(outcomes):
    assert outcomes["host_error_before_any_launch"] == {
        "failed": "ValueError: refused",
        "file": "rejected.py",
        "line": line_marked("rejected", "# launch host_error_before_any_launch"),
    }


def test_a_process_that_ends_before_any_launch_fails_the_call(outcomes):
    said = "the call ended the process with exit status 3 before a kernel was launched"
    assert outcomes["exits_before_any_launch"]["failed"] == said


def test_a_call_that_takes_too_long_is_ended(outcomes):
    assert outcomes["hangs"]["failed"] == "the call had not finished after 0.2 s before a kernel was launched"


def test_endless_launches_are_ended_and_reported_once(kernels):
    assert [kernel["ok"] for kernel in kernels("launches_for_ever")] == [True]
    assert [kernel["ok"] for kernel in kernels("fails_for_ever")] == [False]


@pytest.mark.slow
@pytest.mark.parametrize("prelude", ["interpret", "mended"])
def test_interpreting_first_changes_no_report(outcomes, cache, prelude):
    again = drive(INTERPRETABLE, cache, prelude)
    assert [name for name in again if again[name]["kernels"] != outcomes[name]["kernels"]] == []


@pytest.mark.slow
def test_a_process_that_does_not_interpret_compiles_alike_and_from_the_same_cache(outcomes, cache):
    before = {path.name for path in cache.iterdir()}
    cases = [case for case in CASES if case[1] in {"softmax", "forward_and_backward", "one_branch_kernel"}]
    again = drive(cases, cache, interpret="0")
    assert all(again[name]["kernels"] == outcomes[name]["kernels"] for _, name, _ in cases)
    assert {path.name for path in cache.iterdir()} == before

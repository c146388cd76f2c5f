"""Launches: arguments, grids, autotuning, heuristics, and what is put back afterwards."""

# ruff: noqa: SIM108 - kernels keep to the forms that the compiler knows best
from __future__ import annotations

import inspect

import pytest
import torch
import triton
import triton.language as tl
from interp_support import Options, clean, feature, line_of, record, run, same

from grader.worker.interpreter import Unsupported


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def test_launches_are_recorded():
    x, y = torch.randn(100), torch.empty(100)
    with record(Options()) as result:
        copy_kernel[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, y, 100, BLOCK=32)
        copy_kernel[(2, 3)](x, y, 100, BLOCK=128, num_warps=4, num_stages=2)
    assert [(launch.kernel, launch.grid, launch.config, launch.num_configs) for launch in result.launches] == [
        ("copy_kernel", [4, 1, 1], None, 1),
        ("copy_kernel", [2, 3, 1], None, 1),
    ]
    assert result.launch_count == 2


@feature("grids of one to three dimensions, callable grids")
@pytest.mark.parametrize("grid", [(), (1, 1, 1, 1)])
def test_grid_needs_one_to_three_dimensions(grid):
    with pytest.raises(ValueError, match="grid must have one to three dimensions"):
        run(copy_kernel, grid, torch.randn(4), torch.empty(4), 4, BLOCK=4)


def test_fractional_grid_is_refused():
    with pytest.raises(TypeError):
        run(copy_kernel, (100 / 32,), torch.randn(4), torch.empty(4), 4, BLOCK=4)


@feature("misspelt keyword arguments are an error")
def test_misspelt_keyword_argument_is_an_error():
    with pytest.raises(
        KeyError, match="Keyword argument num_wraps of kernel copy_kernel was specified but unrecognised"
    ):
        run(copy_kernel, (1,), torch.randn(4), torch.empty(4), 4, BLOCK=4, num_wraps=4)


def test_missing_argument_is_an_error():
    with pytest.raises(TypeError, match="BLOCK"):
        run(copy_kernel, (1,), torch.randn(4), torch.empty(4), 4)


@triton.jit
def failing_kernel(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.load(x_ptr + offs) + tl.arange(0, 8)  # the faulty line


def test_error_keeps_its_type_and_the_students_line():
    with pytest.raises(ValueError, match="incompatible dimensions") as caught:
        run(failing_kernel, (1,), torch.randn(16), BLOCK=16)
    lines = [entry.lineno for entry in caught.traceback if entry.path.name == "interp_launch.py"]
    assert lines[-1] == line_of("# the faulty line", __file__) - 1


CONFIGS = [triton.Config({"BLOCK": size}, num_warps=warps) for size, warps in [(16, 1), (32, 2), (64, 4)]]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def tuned_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) + BLOCK, mask=offs < n)


@feature("@triton.autotune: one configuration a run, chosen by the judge")
@pytest.mark.parametrize(("index", "block"), [(0, 16), (1, 32), (2, 64), (3, 16), (7, 32)])
def test_judge_chooses_the_configuration(index, block):
    x, y = torch.zeros(100), torch.empty(100)
    grid = lambda meta: (triton.cdiv(100, meta["BLOCK"]),)  # noqa: E731
    result = clean(tuned_kernel, grid, x, y, 100, options=Options(config_index=index))
    same(y, x + block)
    assert result.launches[0].num_configs == 3
    assert result.launches[0].config.startswith(f"BLOCK: {block}, num_warps:")
    assert result.launches[0].grid == [triton.cdiv(100, block), 1, 1]


def prune(configs, named_args, **kwargs):
    return [config for config in configs if config.kwargs["BLOCK"] <= named_args["n"]]


def prune_by_device(configs, named_args, **kwargs):
    torch.cuda.get_device_properties(0)
    return configs[:1]


@triton.autotune(configs=CONFIGS, key=["n"], prune_configs_by={"early_config_prune": prune})
@triton.jit
def pruned_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) + BLOCK, mask=offs < n)


@triton.autotune(configs=CONFIGS, key=["n"], prune_configs_by={"early_config_prune": prune_by_device})
@triton.jit
def device_pruned_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) + BLOCK, mask=offs < n)


def test_pruned_configurations_are_not_chosen():
    x, y = torch.zeros(40), torch.empty(40)
    result = run(pruned_kernel, (2,), x, y, 40, options=Options(config_index=2))
    assert result.launches[0].num_configs == 2
    assert "BLOCK: 16" in result.launches[0].config


def test_pruning_that_needs_a_gpu_leaves_all_configurations():
    x, y = torch.zeros(40), torch.empty(40)
    result = run(device_pruned_kernel, (1,), x, y, 40, options=Options(config_index=2))
    assert result.launches[0].num_configs == 3
    same(y, x + 64)


def test_redefined_meta_parameter_is_an_error():
    with pytest.raises(ValueError, match="Conflicting meta-parameters: BLOCK"):
        run(tuned_kernel, (1,), torch.zeros(4), torch.zeros(4), 4, BLOCK=16)


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def heuristic_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        x = tl.load(x_ptr + offs)
    else:
        x = tl.load(x_ptr + offs, mask=offs < n) + 100
    tl.store(y_ptr + offs, x, mask=offs < n)


@feature("@triton.heuristics")
@pytest.mark.parametrize(("index", "even"), [(0, True), (1, True), (2, False)])
def test_heuristics(index, even):
    x, y = torch.zeros(96), torch.empty(96)
    grid = lambda meta: (triton.cdiv(96, meta["BLOCK"]),)  # noqa: E731
    clean(heuristic_kernel, grid, x, y, 96, options=Options(config_index=index))
    same(y, x if even else x + 100)


def snapshot():
    owners = [tl, tl.core, tl.math, tl.tensor, tl.dtype, tl.core.tensor_descriptor_base, torch.Tensor]
    return {(id(owner), name): value for owner in owners for name, value in vars(owner).items()}


@feature("Triton's own functions are back in place after each launch")
@pytest.mark.parametrize("fails", [False, True])
def test_patches_are_restored(fails):
    before = snapshot()
    x, y = torch.randn(16), torch.empty(16)
    clean(copy_kernel, (1,), x, y, 16, BLOCK=16)
    if fails:
        with pytest.raises(ValueError, match="incompatible"):
            run(failing_kernel, (1,), x, BLOCK=16)
    after = snapshot()
    assert before.keys() == after.keys()
    assert [key for key in before if before[key] is not after[key]] == []
    with pytest.raises(ValueError, match=r"Did you forget to add @triton\.jit"):
        tl.load(None)


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
def test_kernels_still_compile_for_a_gpu_after_being_interpreted(monkeypatch):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    clean(copy_kernel, (1,), torch.randn(16), torch.empty(16), 16, BLOCK=16)
    for module in (tl, tl.standard):
        for name, member in list(vars(module).items()):
            if isinstance(member, InterpretedFunction):
                monkeypatch.setattr(module, name, JITFunction(member.fn, **member.kwargs))
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(JITFunction(copy_kernel.fn), signature, {"BLOCK": 64})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert "ld.global" in compiled.asm["ptx"]


def test_modules_globals_stay_as_the_student_wrote_them():
    before = set(copy_kernel.fn.__globals__)
    clean(copy_kernel, (1,), torch.randn(16), torch.empty(16), 16, BLOCK=16)
    assert set(copy_kernel.fn.__globals__) == before


def test_install_twice_changes_nothing():
    from triton.runtime.interpreter import InterpretedFunction

    from grader.worker import interpreter

    method = InterpretedFunction.run
    interpreter.install()
    assert InterpretedFunction.run is method


def test_launch_outside_a_record_works():
    x, y = torch.randn(16), torch.empty(16)
    copy_kernel[(1,)](x, y, 16, BLOCK=16)
    same(y, x)


@triton.jit
def everything_kernel(x_ptr, m_ptr, y_ptr, n, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    block = offs[:, None] * BLOCK + offs[None, :] + row * BLOCK * BLOCK
    mask = tl.load(m_ptr + offs) > 0
    x = tl.load(x_ptr + block, mask=mask[:, None], other=1.5)
    y = tl.where(mask[None, :] & (offs < n)[:, None], x * scale, tl.maximum(x, 0.25))
    y = tl.exp(y - tl.max(y, axis=1)[:, None])
    y = y / tl.sum(y, axis=1)[:, None] + tl.full((BLOCK, 1), 2, y.dtype) * tl.zeros((1, BLOCK), tl.float32)
    acc = tl.dot(x, y.to(x.dtype)) + tl.minimum(tl.cdiv(n, 3), offs)[None, :]
    acc += tl.sqrt(tl.abs(x.to(tl.float32))) + tl.min(tl.floor(acc), axis=0)
    tl.store(y_ptr + block, acc, mask=mask[:, None] & (offs < n)[None, :])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_short_paths_give_what_the_long_ones_give(dtype, monkeypatch):
    from grader.worker.interpreter import launch, libdevice, reductions
    from grader.worker.interpreter.language import Patches

    x, m = torch.randn(3, 16, 16).to(dtype), torch.randint(0, 2, (16,), dtype=torch.int32)
    short, long = torch.zeros(3, 16, 16), torch.zeros(3, 16, 16)
    clean(everything_kernel, (3,), x, m, short, 11, 0.5, BLOCK=16)
    monkeypatch.setattr(launch.runtime, "patches", Patches([*reductions.patches(), *libdevice.patches()]))
    clean(everything_kernel, (3,), x, m, long, 11, 0.5, BLOCK=16)
    same(short, long)
    assert short.abs().sum() > 0


@triton.jit
def bool_kernel(x_ptr, y_ptr, s_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.static_assert(x.dtype == tl.int1)
    tl.store(y_ptr + offs, not x)
    tl.store(s_ptr, tl.sum(x.to(tl.int32)))


@feature("bool tensors")
def test_bool_tensors():
    x, y = torch.rand(32) > 0.5, torch.zeros(32, dtype=torch.bool)
    total = torch.zeros((), dtype=torch.int32)
    clean(bool_kernel, (1,), x, y, total, BLOCK=32)
    assert torch.equal(y, ~x)
    assert total == x.sum()


@triton.jit
def activation(x):
    return tl.where(x > 0, x, 0.0)


@triton.jit
def function_argument_kernel(x_ptr, y_ptr, ACTIVATION: tl.constexpr, NAME: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = ACTIVATION(tl.load(x_ptr + offs))
    if NAME == "double":
        x *= 2
    tl.store(y_ptr + offs, x)


@feature("functions, strings and dtypes as tl.constexpr arguments")
def test_functions_and_strings_as_constants():
    x, y = torch.randn(32), torch.empty(32)
    clean(function_argument_kernel, (1,), x, y, activation, "double", BLOCK=32)
    same(y, x.relu() * 2)


def test_calling_a_jit_function_on_the_host_is_refused_as_on_a_gpu():
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        tl.cdiv(10, 3)
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        activation(torch.randn(3))


class Indented:
    @staticmethod
    @triton.autotune(
        configs=[triton.Config({"BLOCK": 64}, num_warps=1)],
        key=["n"],
    )
    @triton.jit
    def kernel(x_ptr, n,
               BLOCK: tl.constexpr):  # fmt: skip
        """A decorated, indented kernel.

        Its docstring starts in column zero.
        """
        offs = tl.arange(0, BLOCK)

        x = tl.load(  # the statement starts here
            x_ptr + offs,
            mask=(offs <
                  n + 1),
        )  # fmt: skip
        tl.store(x_ptr + offs, x, mask=offs < n)


def test_lines_are_right_under_decorators_and_indentation():
    record = run(Indented.kernel, (1,), torch.randn(40), 40)
    assert record.faults[0].line == line_of("# the statement starts here", __file__)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        copy_kernel[(1,)](x, y, x.numel(), BLOCK=64)
        return y * 2

    @staticmethod
    def backward(ctx, dy):
        dx = torch.empty_like(dy)
        copy_kernel[(1,)](dy.contiguous(), dx, dy.numel(), BLOCK=64)
        return dx * 2


@feature("torch.autograd.Function with kernels in both directions")
def test_backward_is_recorded_too():
    x = torch.randn(40, requires_grad=True)
    with record(Options()) as result:
        Doubled.apply(x).sum().backward()
    assert len(result.launches) == 2
    same(x.grad, torch.full((40,), 2.0))


def test_data_ptr_of_the_submission_is_the_real_one():
    x = torch.randn(8)
    with record(Options()):
        assert x.data_ptr() == torch._C.TensorBase.data_ptr(x)


def test_signature_of_the_public_interface():
    from grader.worker import interpreter

    assert list(inspect.signature(interpreter.record).parameters) == ["options"]
    assert list(interpreter.Options.__dataclass_fields__) == [
        "config_index", "tf32", "accumulate_16bit", "memory_check", "batch", "silenced", "inputs",
    ]  # fmt: skip


@feature("triton.runtime.driver.active.get_active_torch_device(): the CPU")
def test_the_driver_knows_the_device_and_nothing_of_a_gpu():
    assert triton.runtime.driver.active.get_active_torch_device() == torch.device("cpu")
    with pytest.raises(RuntimeError, match="0 active drivers"):
        triton.runtime.driver.active.get_current_target()


@feature("kernel.warmup(), which compiles for a GPU", "not measurable")
def test_warmup_is_unsupported():
    with pytest.raises(Unsupported), record(Options()) as result:
        copy_kernel.warmup(torch.zeros(4), torch.zeros(4), 4, BLOCK=4, grid=(1,))
    assert result.unsupported == "kernel.warmup(), which compiles for a GPU"


@triton.autotune(configs=CONFIGS, key=["n"], reset_to_zero=["y_ptr"])
@triton.jit
def adding_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


@feature("reset_to_zero of @triton.autotune is for the tuning: no call resets")
def test_reset_to_zero_resets_nothing_between_calls():
    x, y = torch.ones(100), torch.zeros(100)
    grid = lambda meta: (triton.cdiv(100, meta["BLOCK"]),)  # noqa: E731
    for _ in range(2):
        clean(adding_kernel, grid, x, y, 100, options=Options(config_index=0))
    same(y, 2 * x)

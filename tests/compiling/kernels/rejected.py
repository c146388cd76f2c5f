"""Entry points whose kernels the interpreter runs and a GPU refuses. `# here` marks the line to be named."""

import os
import signal
import time

import torch
import triton
import triton.language as tl

FACTOR = 3.0


def plain_helper(x):
    return x + 1


def launch(kernel):
    kernel[(1,)](torch.zeros(4096).half(), 16)


@triton.jit
def small_dot_kernel(x_ptr, n):
    at = tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(x_ptr + at, tl.dot(x, x))  # here


@triton.jit
def break_kernel(x_ptr, n):
    for i in range(n):
        if i > 3:
            break  # here
        tl.store(x_ptr + i, 1.0)


@triton.jit
def continue_kernel(x_ptr, n):
    for i in range(n):
        if i == 3:
            continue  # here
        tl.store(x_ptr + i, 1.0)


@triton.jit
def return_kernel(x_ptr, n):
    for i in range(n):
        if i == 3:  # here
            return
        tl.store(x_ptr + i, 1.0)


@triton.jit
def one_branch_kernel(x_ptr, n):
    if n > 3:
        value = tl.load(x_ptr)
    tl.store(x_ptr + 1, value)  # here


@triton.jit
def carried_type_kernel(x_ptr, n):
    total = 0
    for i in range(n):  # here
        total += tl.load(x_ptr + i)
    tl.store(x_ptr, total)


@triton.jit
def carried_shape_kernel(x_ptr, n):
    total = tl.zeros((1,), tl.float32)
    for _ in range(n):  # here
        total = total + tl.load(x_ptr + tl.arange(0, 16))
    tl.store(x_ptr + tl.arange(0, 16), total)


@triton.jit
def global_kernel(x_ptr, n):
    tl.store(x_ptr, tl.load(x_ptr) * FACTOR)  # here


@triton.jit
def undecorated_kernel(x_ptr, n):
    x = tl.load(x_ptr)
    tl.store(x_ptr, plain_helper(x))  # here


@triton.jit
def torch_kernel(x_ptr, n):
    x = tl.load(x_ptr)
    tl.store(x_ptr, torch.numel(x))  # here


@triton.jit
def list_kernel(x_ptr, n):
    parts = []
    for i in range(2):
        parts.append(tl.load(x_ptr + i))  # here
    tl.store(x_ptr, parts[0] + parts[1])


@triton.jit
def dict_kernel(x_ptr, n):
    table = {"a": 1}  # here
    tl.store(x_ptr, table["a"])


@triton.jit
def lambda_kernel(x_ptr, n):
    double = lambda x: x * 2  # noqa: E731  # here
    tl.store(x_ptr, double(tl.load(x_ptr)))


@triton.jit
def try_kernel(x_ptr, n):
    try:  # here
        tl.store(x_ptr, 1.0)
    finally:
        pass


@triton.jit
def never_imported_kernel(x_ptr, n):
    tl.store(x_ptr, math.pi)  # noqa: F821  # here


@triton.jit
def runtime_arange_kernel(x_ptr, n):
    tl.store(x_ptr + tl.arange(0, n), 1.0)  # here


@triton.jit
def odd_arange_kernel(x_ptr, n):
    tl.store(x_ptr + tl.arange(0, 48), 1.0)  # here


@triton.jit
def inner(x):
    return tl.reshape(x, (3, 5))  # here


@triton.jit
def faulty_helper_kernel(x_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(x_ptr + tl.arange(0, 16), inner(x))


@triton.jit
def misuse_of_sum_kernel(x_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(x_ptr, tl.sum(x, axis=3))  # here


@triton.jit
def static_assert_kernel(x_ptr, n):
    tl.static_assert(x_ptr.dtype.element_ty == tl.bfloat16, "bfloat16 only")  # here


@triton.jit
def odd_instruction_kernel(x_ptr, n):
    at = x_ptr + tl.arange(0, 16)
    x = tl.load(at)
    tl.store(at, tl.inline_asm_elementwise("nonsense $0, $1;", "=r,r", [x], dtype=tl.float16, is_pure=True, pack=2))


@triton.jit
def fine_kernel(x_ptr, n, BLOCK: tl.constexpr = 16):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


tuned_fine_kernel = triton.autotune([triton.Config({"BLOCK": size}) for size in (16, 32)], key=[])(fine_kernel)


@triton.autotune([triton.Config({}, num_warps=1), triton.Config({}, num_warps=2)], key=[])
@triton.jit
def tuned_faulty_kernel(x_ptr, n):
    tl.store(x_ptr, FACTOR)  # here


def parameter_set_twice():
    fine_kernel[(1,)](torch.zeros(16), 16)
    tuned_fine_kernel[(1,)](torch.zeros(16), 16, BLOCK=16)  # launch parameter_set_twice


def odd_num_warps():
    fine_kernel[(1,)](torch.zeros(16), 16, num_warps=3)  # launch odd_num_warps


def misspelt_keyword():
    fine_kernel[(1,)](torch.zeros(16), 16, BLOCKS=16)  # launch misspelt_keyword


def missing_argument():
    fine_kernel[(1,)](torch.zeros(16))  # launch missing_argument


def too_many_threads():
    fine_kernel[(1,)](torch.zeros(16), 16, num_warps=64)


def long_y_axis():
    fine_kernel[(1, 70000)](torch.zeros(16), 16)  # launch long_y_axis


def long_x_axis():
    fine_kernel[(2**31,)](torch.zeros(16), 16)  # launch long_x_axis


def fractional_grid():
    fine_kernel[(16 / 16,)](torch.zeros(16), 16)  # launch fractional_grid


def grid_that_raises():
    fine_kernel[lambda meta: (meta["BLOK"],)](torch.zeros(16), 16)  # launch grid_that_raises


@triton.jit
def large_shared_kernel(a_ptr, c_ptr, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    depth = tl.arange(0, DEPTH)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, 4096, DEPTH):
        a = tl.load(a_ptr + rows[:, None] * 4096 + k + depth[None, :])
        b = tl.load(a_ptr + rows[None, :] * 4096 + k + depth[:, None])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * BLOCK + rows[None, :], total)


def too_much_shared_memory():
    a = torch.zeros(128, 4096, dtype=torch.float16)
    large_shared_kernel[(1,)](a, torch.zeros(128, 128), BLOCK=128, DEPTH=128, num_stages=4, num_warps=8)


tuned_shared_kernel = triton.autotune(
    [triton.Config({"BLOCK": 128, "DEPTH": 128}, num_stages=4, num_warps=8), triton.Config({"BLOCK": 32, "DEPTH": 32})],
    key=[],
)(large_shared_kernel)


def one_configuration_takes_too_much_shared_memory():
    tuned_shared_kernel[(1,)](torch.zeros(128, 4096, dtype=torch.float16), torch.zeros(128, 128))


def host_error_before_any_launch():
    raise ValueError("refused")  # launch host_error_before_any_launch


def exits_before_any_launch():
    os._exit(3)


def crash(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGSEGV)


@triton.jit
def crashing_kernel(x_ptr, n):
    tl.store(x_ptr, n)


# Triton calls the hook where it compiles, so this stands for a compiler that crashes.
crashing_kernel.add_pre_run_hook(crash)


def compiler_that_crashes():
    fine_kernel[(1,)](torch.zeros(16), 16)
    crashing_kernel[(1,)](torch.zeros(16), 16)


def hangs():
    time.sleep(60)


def launches_for_ever():
    while True:
        fine_kernel[(1,)](torch.zeros(16), 16)


def fails_for_ever():
    while True:
        launch(global_kernel)

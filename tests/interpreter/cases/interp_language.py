"""Python constructs inside kernels, with Triton's meaning."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from interp_support import clean, feature, run, same
from triton.language import arange as from_imported_arange
from triton.language import exp as from_imported_exp
from triton.language import load, store

FACTOR = tl.constexpr(3)


@triton.jit
def logic_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    if OP == "and":
        y = x > 0 and offs < n
    elif OP == "or":
        y = x > 0 or offs < n
    elif OP == "not":
        y = not x > 0
    elif OP == "three":
        y = x > 0 and offs < n and offs > 2
    elif OP == "constant":
        y = BLOCK > 1 and x > 0
    tl.store(y_ptr + offs, y.to(tl.int32))


@feature("`and`, `or`, `not` on blocks are elementwise")
@pytest.mark.parametrize("op", ["and", "or", "not", "three", "constant"])
def test_logic_on_blocks(op):
    x, offs = torch.randn(32), torch.arange(32)
    y = torch.empty(32, dtype=torch.int32)
    clean(logic_kernel, (1,), x, y, 20, BLOCK=32, OP=op)
    expected = {
        "and": (x > 0) & (offs < 20), "or": (x > 0) | (offs < 20), "not": ~(x > 0),
        "three": (x > 0) & (offs < 20) & (offs > 2), "constant": x > 0,
    }[op]  # fmt: skip
    same(y, expected.int())


@triton.jit
def optional_kernel(x_ptr, bias_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    if bias_ptr is not None and BLOCK > 1:
        x += tl.load(bias_ptr + offs)
    tl.store(y_ptr + offs, x)


@feature("None as an argument")
@pytest.mark.parametrize("biased", [False, True])
def test_optional_pointer(biased):
    x, y = torch.randn(16), torch.empty(16)
    bias = torch.randn(16) if biased else None
    clean(optional_kernel, (1,), x, bias, y, BLOCK=16)
    same(y, x + bias if biased else x)


@triton.jit
def extreme_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(y_ptr + offs, min(max(x, -1.0), 1.0) + min(n, 3) + max(BLOCK, 8))


@feature("Python's `min` and `max` on blocks and scalars")
def test_min_and_max_are_elementwise():
    x, y = torch.randn(16) * 3, torch.empty(16)
    clean(extreme_kernel, (1,), x, y, 10, BLOCK=16)
    same(y, x.clamp(-1, 1) + 3 + 16)


@triton.jit
def loop_kernel(y_ptr, n, KIND: tl.constexpr):
    total = tl.zeros((), tl.int32) if KIND == "scalar" else 0
    if KIND == "python":
        for i in range(n):
            total += i.to(tl.int32)
    elif KIND == "triton":
        for i in tl.range(0, n, 1, num_stages=2):
            total += i
    elif KIND == "static":
        for i in tl.static_range(5):
            total += i
    elif KIND == "down":
        for i in range(n, 0, -1):
            total += i * i
    elif KIND == "wrap":
        for i in range(n, n + 1):
            total += i * 1000000000
    elif KIND == "while":
        i = 0
        while i < n:
            total += i
            i += 1
    tl.store(y_ptr, total)


@feature("loop variables are int32 scalars; tl.range, tl.static_range, while")
@pytest.mark.parametrize(("kind", "expected"), [("python", 10), ("triton", 10), ("static", 10), ("down", 55),
                                                ("wrap", 705032704), ("while", 10)])  # fmt: skip
def test_loops(kind, expected):
    y = torch.zeros(1, dtype=torch.int32)
    clean(loop_kernel, (1,), y, 5, KIND=kind)
    assert y.item() == expected


@triton.jit
def long_loop_kernel(y_ptr, start, stop):
    for i in range(start, stop):
        tl.store(y_ptr, i)


def test_loop_variable_is_as_wide_as_its_bounds():
    y = torch.zeros(1, dtype=torch.int64)
    clean(long_loop_kernel, (1,), y, 2**40, 2**40 + 2)
    assert y.item() == 2**40 + 1


@triton.jit
def float_bound_kernel(y_ptr, n):
    for i in range(n):
        tl.store(y_ptr, i)


def test_float_loop_bound_is_refused():
    with pytest.raises(TypeError, match="for loop bounds and step must all be ints"):
        run(float_bound_kernel, (1,), torch.zeros(1), 2.0)


@triton.jit
def documented_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    """Copies.

    def pretend(x): the line above must not be taken for the function
    """
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs))


@feature("docstrings with lines that start with `def `")
def test_docstring_with_a_def_line():
    x, y = torch.randn(16), torch.empty(16)
    clean(documented_kernel, (1,), x, y, BLOCK=16)
    same(y, x)


@triton.jit
def quoted_kernel(x_ptr, y_ptr, BLOCK: "tl.constexpr", SCALE: "'tl.constexpr'" = 2):  # noqa: UP037
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs) * SCALE)


@feature("quoted annotations ('tl.constexpr')")
def test_quoted_annotations():
    x, y = torch.randn(16), torch.empty(16)
    clean(quoted_kernel, (1,), x, y, BLOCK=16)
    same(y, x * 2)


@triton.jit
def bool_kernel(x_ptr, y_ptr, flag, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    if flag:
        x = -x
    tl.store(y_ptr + offs, x)


@feature("bool arguments")
@pytest.mark.parametrize("flag", [False, True])
def test_bool_arguments(flag):
    x, y = torch.randn(16), torch.empty(16)
    clean(bool_kernel, (1,), x, y, flag, BLOCK=16)
    same(y, -x if flag else x)


@triton.jit
def method_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = x.exp().log() + x.abs().sqrt() + x.sigmoid() + x.sum(axis=0) + x.cos() + x.sin()
    tl.store(y_ptr + offs, y + x.max(axis=0).to(tl.float32))


@feature("methods of blocks: x.exp(), x.sum(axis=0), …")
def test_methods_of_blocks():
    x, y = torch.randn(16), torch.empty(16)
    clean(method_kernel, (1,), x, y, BLOCK=16)
    torch.testing.assert_close(y, x + x.abs().sqrt() + x.sigmoid() + x.sum() + x.cos() + x.sin() + x.max())


@triton.jit
def global_kernel(y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, FACTOR * offs + (FACTOR - 1) + FACTOR.value + BLOCK.value)


@feature("module-level tl.constexpr, and .value of constants")
def test_module_level_constants():
    y = torch.empty(16, dtype=torch.int32)
    clean(global_kernel, (1,), y, BLOCK=16)
    same(y, (3 * torch.arange(16) + 2 + 3 + 16).int())


@triton.jit
def imported_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = from_imported_arange(0, BLOCK)
    store(y_ptr + offs, from_imported_exp(load(x_ptr + offs)))


@feature("functions imported by name (`from triton.language import load`)")
def test_functions_imported_by_name():
    x, y = torch.randn(16), torch.empty(16)
    clean(imported_kernel, (1,), x, y, BLOCK=16)
    torch.testing.assert_close(y, x.exp())


def make_kernel(scale):
    @triton.jit
    def closure_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
        offs = tl.arange(0, BLOCK)
        tl.store(y_ptr + offs, tl.load(x_ptr + offs) * scale)

    return closure_kernel


@feature("kernels defined inside functions")
def test_kernel_in_a_function_sees_its_enclosing_variables():
    x, y = torch.randn(16), torch.empty(16)
    clean(make_kernel(tl.constexpr(2)), (1,), x, y, BLOCK=16)
    same(y, x * 2)


@triton.jit
def unimported_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), np.float32(1))  # noqa: F821


@feature("names that were never imported are a NameError")
@pytest.mark.parametrize("name", ["np", "TensorHandle", "interpreter_semantic", "dataclass"])
def test_names_that_were_never_imported_are_unknown(name):
    with pytest.raises(NameError, match="np"):
        run(unimported_kernel, (1,), torch.empty(16), BLOCK=16)
    assert name not in globals()


@triton.jit
def tuple_kernel(pointers, sizes, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(pointers[0] + offs, mask=offs < sizes[0])
    tl.store(pointers[1] + offs, x + sizes[1], mask=offs < sizes[0])


@feature("tuples as arguments")
def test_tuple_arguments():
    x, y = torch.randn(16), torch.zeros(16)
    clean(tuple_kernel, (1,), (x, y), (12, 5), BLOCK=16)
    same(y[:12], x[:12] + 5)
    record = run(tuple_kernel, (1,), (x[:8], y), (12, 5), BLOCK=16)
    assert record.faults[0].argument == "pointers[0]"


@triton.jit
def split_by_two(x):
    return x * 2, x + 1


@triton.jit
def recursive_helper(x, DEPTH: tl.constexpr):
    if DEPTH == 0:
        return x
    return recursive_helper(x, DEPTH - 1) + 1


@triton.jit
def helper_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    a, b = split_by_two(tl.load(x_ptr + offs))
    tl.store(y_ptr + offs, a + b + recursive_helper(a, 3))


@feature("jit helpers, nested and returning tuples")
def test_helpers():
    x, y = torch.randn(16), torch.empty(16)
    clean(helper_kernel, (1,), x, y, BLOCK=16)
    same(y, x * 2 + (x + 1) + (x * 2 + 1 + 1 + 1))


@triton.jit
def declared_kernel(y_ptr, n: tl.int64, scale: tl.float64):
    tl.static_assert(n.dtype == tl.int64)
    tl.static_assert(scale.dtype == tl.float64)
    tl.store(y_ptr, n * 1000000000 * 10)


@feature("declared argument types (n: tl.int64)")
def test_declared_argument_types():
    y = torch.zeros(1, dtype=torch.int64)
    clean(declared_kernel, (1,), y, 7, 0.5)
    assert y.item() == 70_000_000_000


@triton.jit
def static_assert_kernel(y_ptr, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 100, "block too small")
    tl.store(y_ptr, BLOCK)


@feature("tl.static_assert, tl.static_print, tl.device_print, tl.device_assert, tl.assume, tl.debug_barrier")
def test_static_assert():
    with pytest.raises(AssertionError, match="block too small"):
        run(static_assert_kernel, (1,), torch.zeros(1), BLOCK=16)


@triton.jit
def debug_kernel(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.static_print("block", BLOCK)
    tl.device_print("x", x)
    tl.device_assert(x < 0, "ignored unless debugging")
    tl.assume(BLOCK > 0)
    tl.debug_barrier()
    tl.store(x_ptr + offs, tl.max_contiguous(tl.multiple_of(x, 4), 4))


def test_debugging_functions():
    clean(debug_kernel, (1,), torch.ones(4), BLOCK=4)


@triton.jit
def chain_kernel(y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, (2 < offs < n).to(tl.int32))


def test_chained_comparison_is_elementwise():
    y = torch.empty(16, dtype=torch.int32)
    clean(chain_kernel, (1,), y, 9, BLOCK=16)
    offs = torch.arange(16)
    same(y, ((offs > 2) & (offs < 9)).int())


@triton.jit
def wait_kernel(flag_ptr, y_ptr):
    if tl.program_id(0) == 0:
        while tl.load(flag_ptr, volatile=True) == 0:
            pass
        tl.store(y_ptr, 1.0)
    else:
        tl.store(flag_ptr, 1)


@triton.jit
def spin_kernel(lock_ptr, y_ptr):
    while tl.atomic_cas(lock_ptr, 1, 0) == 0:
        pass
    tl.store(y_ptr, 1.0)


@feature("waiting for another program (spin-wait)", "not measurable")
@pytest.mark.parametrize("kernel", [wait_kernel, spin_kernel])
def test_waiting_for_another_program_is_unsupported(kernel):
    from grader.worker.interpreter import Options, Unsupported, record

    with pytest.raises(Unsupported), record(Options()) as result:
        kernel[(2,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1))
    assert result.unsupported == "a loop that waits for another program"


@triton.jit
def lock_kernel(lock_ptr, x_ptr, y_ptr, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(y_ptr + offs) + tl.load(x_ptr + offs))
    tl.atomic_xchg(lock_ptr, 0)


@feature("locks by atomic_cas")
def test_lock_protected_accumulation_runs_without_a_warning():
    x, y = torch.randn(16), torch.zeros(16)
    clean(lock_kernel, (4,), torch.zeros(1, dtype=torch.int32), x, y, BLOCK=16)
    torch.testing.assert_close(y, 4 * x)


@triton.jit
def assembly_kernel(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(x_ptr + tl.arange(0, BLOCK), y)


@triton.jit
def timer_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr, tl.extra.cuda.globaltimer())


@feature("inline assembly, globaltimer", "not measurable")
@pytest.mark.parametrize(("kernel", "name"), [(assembly_kernel, "inline assembly"), (timer_kernel, "globaltimer")])
def test_inline_assembly_is_unsupported(kernel, name):
    from grader.worker.interpreter import Options, Unsupported, record

    with pytest.raises(Unsupported), record(Options()) as result:
        kernel[(1,)](torch.zeros(16), BLOCK=16)
    assert result.unsupported == name


@triton.jit
def endless_kernel(x_ptr, y_ptr, KIND: tl.constexpr):
    i = 0
    total = 0.0
    while i < 10:
        total += tl.load(x_ptr + tl.program_id(0))
        if KIND == "own":
            total += tl.load(y_ptr + tl.program_id(0))
    tl.store(y_ptr + tl.program_id(0), total)


class Stopped(BaseException):
    pass


@pytest.mark.parametrize("kind", ["reads", "own"])
def test_loop_that_merely_never_ends_runs_on(kind, monkeypatch):
    import signal

    import interp_modes

    from grader.worker.interpreter import Options, record, waiting

    def stop(*_):
        raise Stopped

    monkeypatch.setattr(waiting, "PATIENCE", 50)
    monkeypatch.setattr(interp_modes, "active", [False])
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        with pytest.raises(Stopped), record(Options()) as result:
            endless_kernel[(3,)](torch.zeros(3), torch.zeros(3), KIND=kind)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert result.unsupported is None

"""Reductions, scans, sorts and the shape functions."""

# ruff: noqa: SIM108 - kernels keep to the forms that the compiler knows best
from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from interp_support import DTYPES, Options, clean, feature, same


@triton.jit
def reduce_kernel(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr, OP: tl.constexpr, AXIS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    if OP == "sum":
        y = tl.sum(x, axis=AXIS)
    elif OP == "max":
        y = tl.max(x, axis=AXIS)
    elif OP == "min":
        y = tl.min(x, axis=AXIS)
    elif OP == "argmax":
        y = tl.argmax(x, axis=AXIS)
    elif OP == "argmin":
        y = tl.argmin(x, axis=AXIS)
    elif OP == "xor_sum":
        y = tl.xor_sum(x, axis=AXIS)
    if AXIS == 0:
        tl.store(y_ptr + tl.arange(0, N), y)
    else:
        tl.store(y_ptr + tl.arange(0, M), y)


TORCH = {
    "sum": lambda x, axis: x.double().sum(axis),
    "max": lambda x, axis: x.amax(axis),
    "min": lambda x, axis: x.amin(axis),
    "argmax": lambda x, axis: x.argmax(axis),
    "argmin": lambda x, axis: x.argmin(axis),
}


@feature("tl.sum, max, min, argmax, argmin, xor_sum in every dtype")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32", "int8"])
@pytest.mark.parametrize("op", TORCH)
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions(dtype, op, axis):
    generator = torch.Generator().manual_seed(4)
    x = torch.randint(-50, 50, (16, 32), generator=generator).to(DTYPES[dtype])
    expected = TORCH[op](x, axis)
    y = torch.empty(expected.shape, dtype=torch.int32 if "arg" in op or "int" in dtype else DTYPES[dtype])
    clean(reduce_kernel, (1,), x, y, M=16, N=32, OP=op, AXIS=axis)
    same(y, expected.to(y.dtype))


def test_xor_sum():
    x = torch.randint(-99, 99, (16, 32), dtype=torch.int32)
    y = torch.empty(16, dtype=torch.int32)
    clean(reduce_kernel, (1,), x, y, M=16, N=32, OP="xor_sum", AXIS=1)
    expected = x[:, 0].clone()
    for column in x.T[1:]:
        expected ^= column
    same(y, expected)


def test_maximum_over_an_axis_ignores_nan():
    x = torch.arange(512.0).reshape(16, 32)
    x[3, 4] = float("nan")
    y = torch.empty(16)
    clean(reduce_kernel, (1,), x, y, M=16, N=32, OP="max", AXIS=1)
    same(y, torch.arange(16.0) * 32 + 31)


def test_first_index_wins_a_tie():
    x = torch.zeros(16, 32)
    y = torch.empty(16, dtype=torch.int32)
    clean(reduce_kernel, (1,), x, y, M=16, N=32, OP="argmax", AXIS=1)
    assert y.tolist() == [0] * 16


@triton.jit
def sum_all_kernel(x_ptr, y_ptr, N: tl.constexpr):
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, N))))


def tree_sum(x):
    while x.numel() > 1:
        x = x[: x.numel() // 2] + x[x.numel() // 2 :]
    return x


@feature("16-bit sums accumulate in 16 bits, as on a GPU")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_sum_accumulates_in_sixteen_bits(dtype):
    x = torch.randn(1024, generator=torch.Generator().manual_seed(11)).to(DTYPES[dtype])
    y, wide = torch.empty(1, dtype=DTYPES[dtype]), torch.empty(1, dtype=DTYPES[dtype])
    clean(sum_all_kernel, (1,), x, y, N=1024, options=Options())
    clean(sum_all_kernel, (1,), x, wide, N=1024, options=Options(accumulate_16bit=False))
    same(y, tree_sum(x))
    same(wide, x.double().sum().to(DTYPES[dtype]).reshape(1))
    assert y != wide


def test_float16_sum_overflows_on_the_way_as_on_a_gpu():
    x = torch.full((1024,), 200.0, dtype=torch.float16)
    x[1::2] = -200.0
    y = torch.empty(1, dtype=torch.float16)
    clean(sum_all_kernel, (1,), x, y, N=1024)
    assert torch.isnan(y).all()  # +inf of the even elements, -inf of the odd ones
    clean(sum_all_kernel, (1,), x, y, N=1024, options=Options(accumulate_16bit=False))
    assert y == 0


@triton.jit
def longest(a, b):
    return tl.where(tl.abs(a) >= tl.abs(b), a, b)


@triton.jit
def custom_reduce_kernel(x_ptr, y_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(y_ptr, tl.reduce(x, 0, longest))


@feature("tl.reduce and tl.associative_scan with the student's combine function")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_custom_reduction(dtype):
    x = torch.randn(256).to(DTYPES[dtype])
    y = torch.empty(1, dtype=DTYPES[dtype])
    clean(custom_reduce_kernel, (1,), x, y, N=256)
    same(y[0], x[x.abs().argmax()])


@triton.jit
def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    delta = mean_b - mean_a
    n = n_a + n_b
    part = tl.where(n == 0.0, 0.0, n_b / n)
    return mean_a + delta * part, m2_a + m2_b + delta * delta * n_a * part, n


@triton.jit
def welford_kernel(x_ptr, y_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    mean, m2, n = tl.reduce((x, tl.zeros_like(x), tl.full((N,), 1.0, tl.float32)), 0, welford)
    tl.store(y_ptr, mean)
    tl.store(y_ptr + 1, m2 / n)


def test_reduction_of_several_tensors_at_once():
    x = torch.randn(512)
    y = torch.empty(2)
    clean(welford_kernel, (1,), x, y, N=512)
    torch.testing.assert_close(y, torch.stack([x.mean(), x.var(correction=0)]))


@triton.jit
def recurrence(a_left, b_left, a_right, b_right):
    return a_left * a_right, a_right * b_left + b_right


@triton.jit
def scan_kernel(a_ptr, b_ptr, y_ptr, N: tl.constexpr, REVERSE: tl.constexpr):
    offs = tl.arange(0, N)
    _, h = tl.associative_scan((tl.load(a_ptr + offs), tl.load(b_ptr + offs)), 0, recurrence, reverse=REVERSE)
    tl.store(y_ptr + offs, h)


@pytest.mark.parametrize("reverse", [False, True])
def test_custom_scan_keeps_the_order(reverse):
    a, b = torch.rand(64), torch.randn(64)
    y = torch.empty(64)
    clean(scan_kernel, (1,), a, b, y, N=64, REVERSE=reverse)
    expected, state = torch.empty(64), torch.zeros(())
    for i in reversed(range(64)) if reverse else range(64):
        state = a[i] * state + b[i]
        expected[i] = state
    torch.testing.assert_close(y, expected)


@triton.jit
def cumulative_kernel(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr,
                      PROD: tl.constexpr):  # fmt: skip
    offs = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + offs)
    if PROD:
        y = tl.cumprod(x, axis=AXIS, reverse=REVERSE)
    else:
        y = tl.cumsum(x, axis=AXIS, reverse=REVERSE)
    tl.store(y_ptr + offs, y)


@feature("tl.cumsum, cumprod")
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int32"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("product", [False, True])
def test_cumulative_sums_and_products(dtype, axis, reverse, product):
    x = torch.randint(-2, 3, (8, 16), generator=torch.Generator().manual_seed(5)).to(DTYPES[dtype])
    y = torch.empty(8, 16, dtype=torch.float32 if dtype == "bfloat16" else DTYPES[dtype])
    clean(cumulative_kernel, (1,), x, y, M=8, N=16, AXIS=axis, REVERSE=reverse, PROD=product)
    source = x.double().flip(axis) if reverse else x.double()
    expected = source.cumprod(axis) if product else source.cumsum(axis)
    same(y, (expected.flip(axis) if reverse else expected).to(y.dtype))


@triton.jit
def sort_kernel(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr, DESCENDING: tl.constexpr):
    offs = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y_ptr + offs, tl.sort(tl.load(x_ptr + offs), descending=DESCENDING))


@feature("tl.sort, flip")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
@pytest.mark.parametrize("descending", [False, True])
def test_sort(dtype, descending):
    x = torch.randint(-99, 99, (4, 32), generator=torch.Generator().manual_seed(6)).to(DTYPES[dtype])
    y = torch.empty_like(x)
    clean(sort_kernel, (1,), x, y, M=4, N=32, DESCENDING=descending)
    same(y, x.sort(dim=1, descending=descending).values)


@triton.jit
def shape_kernel(x_ptr, y_ptr, OP: tl.constexpr):
    offs = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
    x = tl.load(x_ptr + offs)
    if OP == "trans":
        y = tl.reshape(tl.trans(x), (8, 16))
    elif OP == "T":
        y = tl.reshape(x.T, (8, 16))
    elif OP == "permute":
        y = tl.reshape(tl.permute(tl.reshape(x, (2, 4, 16)), (1, 2, 0)), (8, 16))
    elif OP == "ravel":
        y = tl.reshape(tl.ravel(x), (8, 16))
    elif OP == "flip":
        y = tl.flip(x, 1)
    elif OP == "join_split":
        a, b = tl.split(tl.reshape(x, (8, 8, 2)))
        y = tl.reshape(tl.join(b, a), (8, 16))
    elif OP == "interleave":
        a, b = tl.split(tl.reshape(x, (8, 8, 2)))
        y = tl.interleave(a, b)
    elif OP == "gather":
        y = tl.gather(x, tl.broadcast_to((15 - tl.arange(0, 16))[None, :], (8, 16)), 1)
    elif OP == "expand":
        y = tl.broadcast_to(tl.expand_dims(tl.sum(x, 1), 1), (8, 16))
    elif OP == "cat":
        y = tl.reshape(tl.cat(tl.arange(0, 64), tl.arange(0, 64) + 64, can_reorder=True), (8, 16)).to(x.dtype)
    tl.store(y_ptr + offs, y)


SHAPES = {
    "trans": lambda x: x.T.reshape(8, 16),
    "T": lambda x: x.T.reshape(8, 16),
    "permute": lambda x: x.reshape(2, 4, 16).permute(1, 2, 0).reshape(8, 16),
    "ravel": lambda x: x,
    "flip": lambda x: x.flip(1),
    "join_split": lambda x: x.reshape(8, 8, 2).flip(2).reshape(8, 16),
    "interleave": lambda x: x,
    "gather": lambda x: x.flip(1),
    "expand": lambda x: x.sum(1, keepdim=True).expand(8, 16),
    "cat": lambda x: torch.arange(128.0).reshape(8, 16),
}


@feature("tl.trans, .T, permute, reshape, ravel, join, split, interleave, gather, broadcast_to, expand_dims, cat")
@pytest.mark.filterwarnings("ignore:tl.cat")
@pytest.mark.parametrize("op", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_shape_functions(op, dtype):
    x = torch.arange(128.0).reshape(8, 16).to(DTYPES[dtype])
    y = torch.empty_like(x)
    clean(shape_kernel, (1,), x, y, OP=op)
    same(y, SHAPES[op](x.float()).to(x.dtype))


@triton.jit
def histogram_kernel(x_ptr, y_ptr, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, BINS), tl.histogram(tl.load(x_ptr + tl.arange(0, N)), BINS))


@feature("tl.histogram")
def test_histogram():
    x = torch.randint(0, 16, (256,), dtype=torch.int32)
    y = torch.empty(16, dtype=torch.int32)
    clean(histogram_kernel, (1,), x, y, N=256, BINS=16)
    assert torch.equal(y, torch.bincount(x, minlength=16).int())


@triton.jit
def softmax_kernel(x_ptr, y_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(y_ptr + tl.arange(0, N), tl.softmax(x))


@feature("tl.softmax")
def test_softmax():
    x, y = torch.randn(64), torch.empty(64)
    clean(softmax_kernel, (1,), x, y, N=64)
    torch.testing.assert_close(y, x.softmax(0))


@triton.jit
def pick(a, b):
    if a > b:
        c = a * 2
    else:
        c = b - a
    return c


@triton.jit
def map_kernel(x_ptr, y_ptr, z_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(z_ptr + offs, tl.map_elementwise(pick, tl.load(x_ptr + offs), tl.load(y_ptr + offs)))


@feature("tl.map_elementwise")
@pytest.mark.skipif(not hasattr(tl, "map_elementwise"), reason="this Triton has no map_elementwise")
def test_map_elementwise():
    x, y, z = torch.randn(32), torch.randn(32), torch.empty(32)
    clean(map_kernel, (1,), x, y, z, N=32)
    same(z, torch.where(x > y, x * 2, y - x))

"""tl.dot, tl.dot_scaled, atomics and libdevice."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from interp_support import DTYPES, Options, clean, feature, record, run, same
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.language.extra.libdevice import tanh as imported_tanh


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
               ACC: tl.constexpr):  # fmt: skip
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    if ACC:
        acc = tl.full((M, N), 1.0, tl.float32)
        c = tl.dot(a, b, acc)
    elif PRECISION is None:
        c = tl.dot(a, b)
    else:
        c = tl.dot(a, b, input_precision=PRECISION)
    tl.store(c_ptr + m[:, None] * N + n[None, :], c)


def operands(dtype, m=16, k=32, n=16):
    generator = torch.Generator().manual_seed(7)
    a, b = torch.randn(m, k, generator=generator), torch.randn(k, n, generator=generator)
    return a.to(dtype), b.to(dtype)


def dot(a, b, out=torch.float32, precision=None, acc=False, options=None):
    c = torch.empty(a.shape[0], b.shape[1], dtype=out)
    clean(dot_kernel, (1,), a, b, c, M=a.shape[0], N=b.shape[1], K=a.shape[1], PRECISION=precision, ACC=acc,
          options=options)  # fmt: skip
    return c


@feature("tl.dot of float16, bfloat16, float8, int8, float64")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("acc", [False, True])
def test_dot_of_narrow_floats_accumulates_in_float32(dtype, acc):
    a, b = operands(dtype)
    torch.testing.assert_close(dot(a, b, acc=acc), a.float() @ b.float() + acc, rtol=1e-5, atol=1e-5)


def test_dot_of_int8_is_exact():
    a, b = torch.randint(-128, 128, (2, 16, 32), dtype=torch.int8)[:, :, :].unbind()
    b = b.reshape(32, 16)
    assert torch.equal(dot(a, b, out=torch.int32), a.int() @ b.int())


def test_dot_of_float64():
    a, b = operands(torch.float64)
    torch.testing.assert_close(dot(a, b, out=torch.float64), a @ b)


def tf32(x):
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


@feature("float32 tl.dot uses TF32 unless input_precision says otherwise")
def test_float32_dot_is_tf32_by_default():
    a, b = operands(torch.float32)
    exact = a.double() @ b.double()
    rounded = (tf32(a).double() @ tf32(b).double()).float()
    for precision in (None, "tf32"):
        torch.testing.assert_close(dot(a, b, precision=precision), rounded, rtol=1e-5, atol=1e-6)
    assert (rounded - exact).abs().max() > 1e-4
    for result in (
        dot(a, b, precision="ieee"), dot(a, b, precision="tf32x3"), dot(a, b, options=Options(tf32=False)),
    ):  # fmt: skip
        torch.testing.assert_close(result.double(), exact, rtol=1e-5, atol=1e-5)


@triton.jit
def half_out_kernel(a_ptr, b_ptr, c_ptr):
    i = tl.arange(0, 16)
    offs = i[:, None] * 16 + i[None, :]
    tl.store(c_ptr + offs, tl.dot(tl.load(a_ptr + offs), tl.load(b_ptr + offs), out_dtype=tl.float16))


def test_dot_with_float16_result():
    a, b = operands(torch.float16, k=16)
    c = torch.empty(16, 16, dtype=torch.float16)
    clean(half_out_kernel, (1,), a, b, c)
    torch.testing.assert_close(c, (a.float() @ b.float()).half())


@triton.jit
def batched_dot_kernel(a_ptr, b_ptr, c_ptr):
    i, j = tl.arange(0, 2)[:, None, None], tl.arange(0, 16)
    offs = i * 256 + j[None, :, None] * 16 + j[None, None, :]
    tl.store(c_ptr + offs, tl.dot(tl.load(a_ptr + offs), tl.load(b_ptr + offs)))


@feature("batched (three-dimensional) tl.dot")
def test_batched_dot():
    a, b = torch.randn(2, 2, 16, 16).half()
    c = torch.empty(2, 16, 16)
    clean(batched_dot_kernel, (1,), a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-5, atol=1e-5)


@triton.jit
def scaled_kernel(a_ptr, sa_ptr, b_ptr, sb_ptr, c_ptr, FORMAT: tl.constexpr, PACK: tl.constexpr):
    m, n = tl.arange(0, 32), tl.arange(0, 32)
    k, s = tl.arange(0, 64 // PACK), tl.arange(0, 2)
    a = tl.load(a_ptr + m[:, None] * (64 // PACK) + k[None, :])
    b = tl.load(b_ptr + k[:, None] * 32 + n[None, :])
    sa = tl.load(sa_ptr + m[:, None] * 2 + s[None, :])
    sb = tl.load(sb_ptr + n[:, None] * 2 + s[None, :])
    c = tl.dot_scaled(a, sa, FORMAT, b, sb, FORMAT)
    tl.store(c_ptr + m[:, None] * 32 + n[None, :], c)


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


@feature("tl.dot_scaled (e2m1, e4m3, e5m2)")
@pytest.mark.parametrize("kind", ["e2m1", "e4m3", "e5m2"])
def test_dot_scaled(kind):
    generator = torch.Generator().manual_seed(8)
    pack = 2 if kind == "e2m1" else 1
    a = torch.randint(0, 256, (32, 64 // pack), generator=generator, dtype=torch.uint8)
    b = torch.randint(0, 256, (64 // pack, 32), generator=generator, dtype=torch.uint8)
    if kind == "e2m1":
        wide_a = torch.stack([E2M1[(a & 15).long()], E2M1[(a >> 4).long()]], dim=2).reshape(32, 64)
        wide_b = torch.stack([E2M1[(b & 15).long()], E2M1[(b >> 4).long()]], dim=1).reshape(64, 32)
    else:
        dtype = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[kind]
        a, b = torch.randn(32, 64).to(dtype).view(torch.uint8), torch.randn(64, 32).to(dtype).view(torch.uint8)
        wide_a, wide_b = a.view(dtype).float(), b.view(dtype).float()
    sa = torch.randint(120, 132, (32, 2), generator=generator, dtype=torch.uint8)
    sb = torch.randint(120, 132, (32, 2), generator=generator, dtype=torch.uint8)
    c = torch.empty(32, 32)
    clean(scaled_kernel, (1,), a, sa, b, sb, c, FORMAT=kind, PACK=pack)
    scale_a = torch.exp2(sa.double() - 127).repeat_interleave(32, 1)
    scale_b = torch.exp2(sb.double() - 127).repeat_interleave(32, 1).T
    torch.testing.assert_close(c.double(), (wide_a * scale_a) @ (wide_b * scale_b), rtol=1e-4, atol=1e-3)


# ------------------------------------------------------------------ atomics


@triton.jit
def atomic_kernel(x_ptr, i_ptr, y_ptr, old_ptr, BLOCK: tl.constexpr, OP: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, i = tl.load(x_ptr + offs), tl.load(i_ptr + offs)
    if OP == "add":
        old = tl.atomic_add(y_ptr + i, x)
    elif OP == "max":
        old = tl.atomic_max(y_ptr + i, x)
    elif OP == "min":
        old = tl.atomic_min(y_ptr + i, x)
    elif OP == "xchg":
        old = tl.atomic_xchg(y_ptr + i, x)
    elif OP == "and":
        old = tl.atomic_and(y_ptr + i, x)
    elif OP == "or":
        old = tl.atomic_or(y_ptr + i, x)
    elif OP == "xor":
        old = tl.atomic_xor(y_ptr + i, x)
    tl.store(old_ptr + offs, old)


PYTHON = {
    "add": lambda old, x: old + x, "max": max, "min": min, "xchg": lambda old, x: x,
    "and": lambda old, x: old & x, "or": lambda old, x: old | x, "xor": lambda old, x: old ^ x,
}  # fmt: skip
ATOMICS = [(op, "int32") for op in PYTHON] + [(op, "float32") for op in ("add", "max", "min", "xchg")]
ATOMICS += [("add", "float16"), ("add", "bfloat16")]


@feature("atomic_add (bfloat16 too), max, min, xchg (floats too), and, or, xor, cas")
@pytest.mark.parametrize(("op", "dtype"), ATOMICS)
def test_atomics_act_lane_by_lane(op, dtype):
    generator = torch.Generator().manual_seed(9)
    x = torch.randint(-9, 9, (64,), generator=generator).to(DTYPES[dtype])
    i = torch.randint(0, 8, (64,), generator=generator, dtype=torch.int32)
    y, old = torch.zeros(8, dtype=DTYPES[dtype]), torch.empty(64, dtype=DTYPES[dtype])
    clean(atomic_kernel, (2,), x, i, y, old, BLOCK=32, OP=op)
    values, seen = [0] * 8, []
    for value, index in zip(x.tolist(), i.tolist(), strict=True):
        value = value if "float" in dtype else int(value)
        seen.append(values[index])
        values[index] = PYTHON[op](values[index], value)
    same(y, torch.tensor(values).to(y.dtype))
    if not (op in ("max", "min") and dtype == "float32"):  # two atomics on the integer bits, one for each sign
        same(old, torch.tensor(seen).to(y.dtype))


@triton.jit
def cas_kernel(y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.atomic_cas(y_ptr + offs, tl.full((BLOCK,), 1, tl.int32), tl.full((BLOCK,), 7, tl.int32))


def test_compare_and_swap():
    y = torch.arange(4, dtype=torch.int32)
    clean(cas_kernel, (1,), y, BLOCK=4)
    assert y.tolist() == [0, 7, 2, 3]


# ------------------------------------------------------------------ libdevice


@triton.jit
def libdevice_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    if OP == "tanh":
        y = libdevice.tanh(x)
    elif OP == "tanh_imported":
        y = imported_tanh(x)
    elif OP == "tanh_cuda":
        y = cuda_libdevice.tanh(x)
    elif OP == "tanh_extra":
        y = tl.extra.libdevice.tanh(x)
    elif OP == "erf":
        y = libdevice.erf(x)
    elif OP == "erfc":
        y = libdevice.erfc(x)
    elif OP == "erfinv":
        y = libdevice.erfinv(x)
    elif OP == "exp":
        y = libdevice.exp(x)
    elif OP == "fast_expf":
        y = libdevice.fast_expf(x)
    elif OP == "expm1":
        y = libdevice.expm1(x)
    elif OP == "log1p":
        y = libdevice.log1p(x)
    elif OP == "rsqrt":
        y = libdevice.rsqrt(x)
    elif OP == "pow":
        y = libdevice.pow(x, x + 1)
    elif OP == "atan2":
        y = libdevice.atan2(x, x + 1)
    elif OP == "fma_rn":
        y = libdevice.fma(x, x, x)
    elif OP == "round":
        y = libdevice.round(x * 4)
    elif OP == "rint":
        y = libdevice.rint(x * 4)
    elif OP == "lgamma":
        y = libdevice.lgamma(x)
    elif OP == "j0":
        y = libdevice.j0(x)
    elif OP == "cyl_bessel_i1":
        y = libdevice.cyl_bessel_i1(x)
    elif OP == "normcdf":
        y = libdevice.normcdf(x)
    elif OP == "isnan":
        y = libdevice.isnan(x / (x - x)).to(tl.float32)
    elif OP == "asinh":
        y = libdevice.asinh(x)
    elif OP == "cbrt":
        y = libdevice.cbrt(x)
    elif OP == "div_rn":
        y = libdevice.div_rn(x, x + 1)
    elif OP == "float2int_rn":
        y = libdevice.float2int_rn(x * 4).to(tl.float32)
    tl.store(y_ptr + offs, y)


LIBDEVICE = {
    **dict.fromkeys(["tanh", "tanh_imported", "tanh_cuda", "tanh_extra"], torch.tanh),
    "erf": torch.erf, "erfc": torch.erfc, "erfinv": torch.erfinv, "exp": torch.exp, "fast_expf": torch.exp,
    "expm1": torch.expm1, "log1p": torch.log1p, "rsqrt": torch.rsqrt, "pow": lambda x: x ** (x + 1),
    "atan2": lambda x: torch.atan2(x, x + 1), "fma_rn": lambda x: x * x + x, "round": lambda x: (x * 4 + 0.5).floor(),
    "rint": lambda x: torch.round(x * 4), "lgamma": torch.lgamma, "j0": torch.special.bessel_j0,
    "cyl_bessel_i1": torch.special.i1, "normcdf": torch.special.ndtr, "isnan": torch.zeros_like, "asinh": torch.asinh,
    "cbrt": lambda x: x ** (1 / 3), "div_rn": lambda x: x / (x + 1), "float2int_rn": lambda x: torch.round(x * 4),
}  # fmt: skip


@feature("libdevice (about 100 functions: tanh, erf, erfinv, pow, rsqrt, lgamma, isnan, …)")
@pytest.mark.parametrize("op", LIBDEVICE)
def test_libdevice(op):
    if op == "tanh_extra" and not hasattr(tl.extra, "libdevice"):
        pytest.skip("not exposed by this Triton")
    x = torch.rand(256) * 0.98 + 0.01
    y = torch.empty(256)
    clean(libdevice_kernel, (1,), x, y, BLOCK=256, OP=op)
    torch.testing.assert_close(y.double(), LIBDEVICE[op](x.double()), rtol=3e-7, atol=1e-6 if op == "lgamma" else 1e-7)


@triton.jit
def libdevice_integer_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    if OP == "popc":
        y = libdevice.popc(x)
    elif OP == "clz":
        y = libdevice.clz(x)
    elif OP == "ffs":
        y = libdevice.ffs(x)
    elif OP == "abs":
        y = libdevice.abs(x)
    tl.store(y_ptr + offs, y)


@pytest.mark.parametrize("op", ["popc", "clz", "ffs", "abs"])
def test_integer_libdevice(op):
    x = torch.tensor([0, 1, 2, 40, -1, -8, 2**31 - 1, 12345], dtype=torch.int32)
    y = torch.empty(8, dtype=torch.int32)
    clean(libdevice_integer_kernel, (1,), x, y, BLOCK=8, OP=op)
    words = [v & 0xFFFFFFFF for v in x.tolist()]
    expected = {
        "popc": [v.bit_count() for v in words], "clz": [32 - v.bit_length() for v in words],
        "ffs": [(v & -v).bit_length() for v in words], "abs": [abs(v) for v in x.tolist()],
    }[op]  # fmt: skip
    assert y.tolist() == expected


@triton.jit
def unknown_libdevice_kernel(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(x_ptr + tl.arange(0, BLOCK), libdevice.yn(x.to(tl.int32), x))


@feature("libdevice functions without a numpy equivalent (yn, byte_perm, …)", "not measurable")
def test_libdevice_function_without_an_equivalent_is_unsupported():
    from grader.worker.interpreter import Unsupported

    with pytest.raises(Unsupported), record(Options()) as result:
        unknown_libdevice_kernel[(1,)](torch.ones(4), BLOCK=4)
    assert result.unsupported == "libdevice function __nv_ynf"


def test_libdevice_functions_are_stubs_again_after_a_launch():
    assert libdevice.tanh(1.0) is None
    assert math.isclose(np.tanh(1.0), 0.7615941559557649)
    assert run is not None

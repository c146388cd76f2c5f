"""Casts and elementwise arithmetic, bit for bit against torch where torch defines the result."""

# ruff: noqa: SIM108 - kernels keep to the forms that the compiler knows best
from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from interp_support import DTYPES, clean, feature, same

N = 1024
WIDE_VALUES = [0.0, -0.0, 1.0, -1.0, 1.5, 2.5, 3.0e38, -3.0e38, 65504.0, 65519.9, 65520.0, 1e-8, 6e-8, -1e-45, 1e-40]
SPECIAL = [float("nan"), float("inf"), float("-inf")]


def spread(dtype=torch.float32, special=True):
    """Values of every magnitude that a float16 and more can hold, ties of bfloat16 included."""
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(N, generator=generator) * torch.exp2(torch.randint(-30, 20, (N,), generator=generator).float())
    listed = torch.tensor(WIDE_VALUES + (SPECIAL if special else []), dtype=torch.float32)
    values[: len(listed)] = listed
    mantissas = torch.arange(128) << 16
    ties = ((127 << 23) + mantissas + 0x8000).to(torch.int32).view(torch.float32)
    values[512 : 512 + 128] = ties
    return values.to(dtype)


@triton.jit
def cast_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs).to(y_ptr.dtype.element_ty))


def cast(x, dtype):
    y = torch.empty(x.shape, dtype=dtype)
    clean(cast_kernel, (1,), x, y, BLOCK=x.numel())
    return y


@feature("float casts, bit-exact with torch (float16, bfloat16, float32, float64)")
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32", "float64"])
def test_float_casts_are_bit_exact_with_torch(source, target):
    x = spread().double().to(DTYPES[source])
    same(cast(x, DTYPES[target]), x.to(DTYPES[target]))


@feature("integer to float casts")
@pytest.mark.parametrize("source", ["int8", "int16", "int32", "int64", "uint8"])
@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32"])
def test_integer_to_float_casts_round_like_torch(source, target):
    info = torch.iinfo(DTYPES[source])
    x = torch.linspace(info.min, info.max, N, dtype=torch.float64).clamp(info.min, info.max * 0.999).to(DTYPES[source])
    same(cast(x, DTYPES[target]), x.to(DTYPES[target]))


@feature("float to integer casts saturate, NaN gives 0")
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("target", ["int8", "int16", "int32", "int64", "uint8"])
def test_float_to_integer_casts_saturate(source, target):
    x = torch.tensor([0.0, 1.9, -1.9, 3e9, -3e9, 1e19, -1e19, 127.0, 128.0, -129.0, 300.0, float("nan"), float("inf"),
                      float("-inf"), 2147483647.0, 65504.0], dtype=torch.float64).to(DTYPES[source])  # fmt: skip
    info = torch.iinfo(DTYPES[target])
    values = [0 if v != v else max(info.min, min(info.max, int(max(-1e30, min(1e30, v))))) for v in x.tolist()]
    assert cast(x, DTYPES[target]).tolist() == values


FP8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


@feature("float8 casts: nearest even, saturating, NaN kept")
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("target", FP8)
def test_fp8_casts_saturate_and_keep_nan(source, target):
    x = spread().to(DTYPES[source])
    largest = torch.finfo(FP8[target]).max
    expected = x.float().clamp(-largest, largest).to(FP8[target])
    actual = cast(x, FP8[target])
    assert torch.equal(actual.view(torch.uint8) & 0x7F > 0x7B + 3 * (target == "e4m3"), torch.isnan(x))
    known = ~torch.isnan(x)
    assert torch.equal(actual.view(torch.uint8)[known], expected.view(torch.uint8)[known])


@pytest.mark.parametrize("source", FP8)
@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32"])
def test_fp8_decodes_like_torch(source, target):
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(FP8[source])
    same(cast(codes, DTYPES[target]), codes.to(DTYPES[target]))


@triton.jit
def toward_zero_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(y_ptr + offs, x.to(y_ptr.dtype.element_ty, fp_downcast_rounding="rtz"))


@feature("fp_downcast_rounding='rtz'")
@pytest.mark.parametrize("target", ["float16", "bfloat16"])
def test_rounding_toward_zero_never_grows(target):
    x = spread(special=False).clamp(-60000, 60000)
    y = torch.empty(N, dtype=DTYPES[target])
    clean(toward_zero_kernel, (1,), x, y, BLOCK=N)
    nearest = x.to(DTYPES[target])
    assert (y.float().abs() <= x.abs()).all()
    exact = nearest.float().abs() <= x.abs()
    assert torch.equal(y[exact], nearest[exact])
    assert (y[~exact] != nearest[~exact]).all()


@triton.jit
def binary_kernel(x_ptr, y_ptr, z_ptr, BLOCK: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    if OP == "add":
        z = x + y
    elif OP == "sub":
        z = x - y
    elif OP == "mul":
        z = x * y
    elif OP == "div":
        z = (x / y).to(x.dtype)
    elif OP == "maximum":
        z = tl.maximum(x, y)
    elif OP == "minimum":
        z = tl.minimum(x, y)
    elif OP == "where":
        z = tl.where(x > y, x, y + 1)
    elif OP == "compare":
        z = (x < y).to(x.dtype)
    elif OP == "abs":
        z = tl.abs(x)
    elif OP == "neg":
        z = -x
    elif OP == "scalar":
        z = 1.3 * x + 0.1
    elif OP == "fma":
        z = tl.fma(x, y, x)
    elif OP == "clamp":
        z = tl.clamp(x, -1.0, 1.0)
    tl.store(z_ptr + offs, z)


def torch_binary(op, x, y):
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    a, b = x.to(wide), y.to(wide)
    results = {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "div": lambda: a / b,
        "maximum": lambda: torch.fmax(a, b), "minimum": lambda: torch.fmin(a, b),
        "where": lambda: torch.where(a > b, a, (b + 1).to(x.dtype).to(wide)), "compare": lambda: a < b,
        "abs": lambda: a.abs(), "neg": lambda: -a,
        "scalar": lambda: (torch.tensor(1.3).to(x.dtype).to(wide) * a).to(x.dtype).to(wide)
        + torch.tensor(0.1).to(x.dtype).to(wide),
        "fma": lambda: (x.double() * y.double() + x.double()),
        "clamp": lambda: a.clamp(-1, 1),
    }  # fmt: skip
    return results[op]().to(x.dtype)


@feature("elementwise arithmetic and comparisons in float16, bfloat16, float32")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    "op", ["add", "sub", "mul", "div", "maximum", "minimum", "where", "compare", "abs", "neg", "scalar", "fma", "clamp"]
)
def test_elementwise_arithmetic_rounds_once(dtype, op):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(N, generator=generator).to(DTYPES[dtype])
    y = torch.randn(N, generator=generator).to(DTYPES[dtype])
    if op in ("maximum", "minimum", "abs", "neg"):
        x[:3], y[2:5] = torch.tensor(SPECIAL).to(x.dtype), torch.tensor(SPECIAL).to(x.dtype)
    z = torch.empty_like(x)
    clean(binary_kernel, (1,), x, y, z, BLOCK=N, OP=op)
    same(z, torch_binary(op, x, y))


@triton.jit
def maximum_kernel(x_ptr, y_ptr, z_ptr, BLOCK: tl.constexpr, ALL: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    if ALL:
        z = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    else:
        z = tl.maximum(x, y)
    tl.store(z_ptr + offs, z)


@pytest.mark.parametrize("propagate", [False, True])
def test_maximum_treats_nan_as_asked(propagate):
    x = torch.tensor([1.0, float("nan"), 3.0, float("nan")])
    y = torch.tensor([float("nan"), 2.0, 1.0, float("nan")])
    z = torch.empty(4)
    clean(maximum_kernel, (1,), x, y, z, BLOCK=4, ALL=propagate)
    same(z, torch.maximum(x, y) if propagate else torch.fmax(x, y))


@triton.jit
def float_argument_kernel(x_ptr, y_ptr, scale, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    y = tl.load(x_ptr + offs) * scale
    tl.static_assert(y.dtype == tl.float32)
    tl.store(y_ptr + offs, y)


@feature("float arguments are float32 scalars")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_times_float_argument_is_float32(dtype):
    x = torch.randn(64).to(DTYPES[dtype])
    y = torch.empty(64)
    clean(float_argument_kernel, (1,), x, y, 0.1, BLOCK=64)
    same(y, x.float() * torch.tensor(0.1))


@triton.jit
def integer_kernel(x_ptr, y_ptr, z_ptr, BLOCK: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    if OP == "floordiv":
        z = x // y
    elif OP == "mod":
        z = x % y
    elif OP == "add":
        z = x + y
    elif OP == "mul":
        z = x * y
    elif OP == "shl":
        z = x << (y & 7)
    elif OP == "shr":
        z = x >> (y & 7)
    elif OP == "invert":
        z = ~x
    elif OP == "xor":
        z = x ^ (y | 3)
    tl.store(z_ptr + offs, z)


@feature("integer arithmetic wraps; division and remainder as in C")
@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
@pytest.mark.parametrize("op", ["floordiv", "mod", "add", "mul", "shl", "shr", "invert", "xor"])
def test_integer_arithmetic(dtype, op):
    kind = np.dtype(dtype)
    generator = np.random.default_rng(3)
    info = np.iinfo(kind)
    x = generator.integers(info.min, info.max, N).astype(kind)
    y = generator.integers(1, 100, N).astype(kind) * generator.choice([-1, 1], N).astype(kind)
    shift = y & 7
    with np.errstate(over="ignore"):
        expected = {
            "floordiv": lambda: (x - np.fmod(x, y)) // y,
            "mod": lambda: np.fmod(x, y), "add": lambda: x + y, "mul": lambda: x * y,
            "shl": lambda: x << shift, "shr": lambda: x >> shift, "invert": lambda: ~x, "xor": lambda: x ^ (y | 3),
        }[op]().astype(kind)  # fmt: skip
    z = torch.empty(N, dtype=DTYPES[dtype])
    clean(integer_kernel, (1,), torch.from_numpy(x), torch.from_numpy(y), z, BLOCK=N, OP=op)
    assert torch.equal(z, torch.from_numpy(expected))


@triton.jit
def math_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    if OP == "exp":
        y = tl.exp(x)
    elif OP == "exp2":
        y = tl.exp2(x)
    elif OP == "log":
        y = tl.log(x)
    elif OP == "log2":
        y = tl.log2(x)
    elif OP == "sqrt":
        y = tl.sqrt(x)
    elif OP == "sqrt_rn":
        y = tl.sqrt_rn(x)
    elif OP == "rsqrt":
        y = tl.rsqrt(x)
    elif OP == "sin":
        y = tl.sin(x)
    elif OP == "cos":
        y = tl.cos(x)
    elif OP == "erf":
        y = tl.erf(x)
    elif OP == "sigmoid":
        y = tl.sigmoid(x)
    elif OP == "floor":
        y = tl.floor(x)
    elif OP == "ceil":
        y = tl.ceil(x)
    elif OP == "div_rn":
        y = tl.div_rn(x, x + 1)
    elif OP == "fdiv":
        y = tl.fdiv(x, x + 1)
    tl.store(y_ptr + offs, y)


MATH = {
    "exp": torch.exp, "exp2": torch.exp2, "log": torch.log, "log2": torch.log2, "sqrt": torch.sqrt,
    "sqrt_rn": torch.sqrt, "rsqrt": torch.rsqrt, "sin": torch.sin, "cos": torch.cos, "erf": torch.erf,
    "sigmoid": torch.sigmoid, "floor": torch.floor, "ceil": torch.ceil, "div_rn": lambda x: x / (x + 1),
    "fdiv": lambda x: x / (x + 1),
}  # fmt: skip


@feature("tl.exp, exp2, log, log2, sqrt, rsqrt, sin, cos, erf, sigmoid, floor, ceil, fdiv, div_rn")
@pytest.mark.parametrize("op", MATH)
def test_math_functions(op):
    x = torch.rand(N) * 5 + 1e-3
    y = torch.empty(N)
    clean(math_kernel, (1,), x, y, BLOCK=N, OP=op)
    # rtol of a few float32 roundings
    torch.testing.assert_close(y.double(), MATH[op](x.double()), rtol=1e-6, atol=1e-6)


def test_erf_keeps_float64_accuracy():
    x = torch.linspace(-6.5, 6.5, N, dtype=torch.float64)
    y = torch.empty(N, dtype=torch.float64)
    clean(math_kernel, (1,), x, y, BLOCK=N, OP="erf")
    torch.testing.assert_close(y, torch.erf(x), rtol=1e-14, atol=1e-16)


@triton.jit
def bitcast_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs).to(y_ptr.dtype.element_ty, bitcast=True))


@feature("bitcasts")
@pytest.mark.parametrize(("source", "target"), [("bfloat16", "int16"), ("int16", "bfloat16"), ("float32", "int32"),
                                                ("int16", "float16")])  # fmt: skip
def test_bitcasts_keep_the_bits(source, target):
    x = torch.arange(1, 1 + 256, dtype=torch.int32).mul(91).to(torch.int16)
    x = x.float() if source == "float32" else x.view(DTYPES[source])
    y = torch.empty(256, dtype=DTYPES[target])
    clean(bitcast_kernel, (1,), x, y, BLOCK=256)
    assert torch.equal(y.view(torch.uint8), x.view(DTYPES[target]).view(torch.uint8))


@triton.jit
def random_kernel(y_ptr, z_ptr, seed, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.rand(seed, offs))
    tl.store(z_ptr + offs, tl.randint(seed, offs))


def philox(seed, counter):
    """Philox 4x32-10 (Salmon et al. 2011), first word."""
    mask = 0xFFFFFFFF
    c, k = [counter, 0, 0, 0], [seed & mask, seed >> 32]
    for _ in range(10):
        high_a, low_a = divmod(0xD2511F53 * c[0], 1 << 32)
        high_b, low_b = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [high_b ^ c[1] ^ k[0], low_b, high_a ^ c[3] ^ k[1], low_a]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c[0]


@feature("tl.rand, tl.randint (Philox)")
def test_random_numbers_are_philox():
    y, z = torch.empty(64), torch.empty(64, dtype=torch.int32)
    clean(random_kernel, (1,), y, z, 1234, BLOCK=64)
    assert [v & 0xFFFFFFFF for v in z.tolist()] == [philox(1234, i) for i in range(64)]
    assert ((y >= 0) & (y < 1)).all()
    assert y.unique().numel() > 60

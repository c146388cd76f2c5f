"""CUDA's libdevice functions by numpy (untrusted worker side).

`triton.language.extra.libdevice` is a module of empty stubs that the compiler maps to the CUDA one; both arrive here as
the symbol of the CUDA function, whose suffix only says the type. Results are computed in float64 and rounded once.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.language.extra import cuda
from triton.language.extra import libdevice as generic
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.runtime import interpreter

from . import special, state
from .numerics import convert, numpy_dtype
from .tensors import semantic

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


def _halves_away(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _rsqrt(x: Array) -> Array:
    result: Array = 1 / np.sqrt(x)
    return result


def _cbrt_inverse(x: Array) -> Array:
    result: Array = 1 / np.cbrt(x)
    return result


def _bessel_i(order: int) -> Function:
    nodes = (np.arange(400) + 0.5) * math.pi / 400

    def function(x: Array) -> Array:
        # The integral of exp(x cos t) cos(n t) over a half period: the midpoint rule converges geometrically.
        angle = nodes.reshape((-1,) + (1,) * x.ndim)
        result: Array = np.mean(np.exp(x * np.cos(angle)) * np.cos(order * angle), axis=0)
        return result

    return function


def _bessel_j(order: int) -> Function:
    def function(x: Array) -> Array:
        count = 400 + 2 * int(np.nanmax(np.abs(np.where(np.isfinite(x), x, 0)), initial=0))
        angle = ((np.arange(count) + 0.5) * math.pi / count).reshape((-1,) + (1,) * x.ndim)
        result: Array = np.mean(np.cos(order * angle - x * np.sin(angle)), axis=0)
        return result

    return function


_REAL: dict[str, Function] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc")},
    **{name: getattr(np, name) for name in ("hypot", "copysign", "nextafter", "fmax", "fmin", "fmod", "rint")},
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "exp10": lambda x: np.power(10.0, x),
    "pow": np.power,
    "powi": np.power,
    "fabs": np.abs,
    "nearbyint": np.rint,
    "round": _halves_away,
    "rsqrt": _rsqrt,
    "rcbrt": _cbrt_inverse,
    "rcp": np.reciprocal,
    "fdim": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.fmax(x - y, 0)),
    "remainder": lambda x, y: special.elementwise("remainder", x, y),
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "norm3d": lambda x, y, z: np.sqrt(x * x + y * y + z * z),
    "rnorm3d": lambda x, y, z: 1 / np.sqrt(x * x + y * y + z * z),
    "norm4d": lambda x, y, z, w: np.sqrt(x * x + y * y + z * z + w * w),
    "rnorm4d": lambda x, y, z, w: 1 / np.sqrt(x * x + y * y + z * z + w * w),
    "sinpi": lambda x: np.sin(math.pi * np.fmod(x, 2)),
    "cospi": lambda x: np.cos(math.pi * np.fmod(x, 2)),
    "erf": special.erf,
    "erfc": special.erfc,
    "erfcx": lambda x: np.exp(x * x) * special.erfc(x),
    "erfinv": lambda x: special.normal_quantile((x + 1) / 2) / math.sqrt(2),
    "erfcinv": lambda x: -special.normal_quantile(x / 2) / math.sqrt(2),
    "normcdf": lambda x: special.erfc(-x / math.sqrt(2)) / 2,
    "normcdfinv": special.normal_quantile,
    "tgamma": lambda x: special.elementwise("gamma", x),
    "lgamma": lambda x: special.elementwise("lgamma", x),
    "cyl_bessel_i0": _bessel_i(0),
    "cyl_bessel_i1": _bessel_i(1),
    "j0": _bessel_j(0),
    "j1": _bessel_j(1),
    "saturate": lambda x: np.where(np.isnan(x), 0, np.clip(x, 0, 1)),
    "logb": lambda x: np.where(x == 0, -np.inf, np.where(np.isinf(x), np.inf, np.frexp(x)[1] - 1)),
    "ldexp": lambda x, n: np.ldexp(x, n.astype(np.int32)),
    "scalbn": lambda x, n: np.ldexp(x, n.astype(np.int32)),
    "fma": lambda x, y, z: x * y + z,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "fdivide": np.divide,
}
_TESTS: dict[str, Function] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "finite": np.isfinite,
    "signbit": np.signbit,
}


def _bit_count(x: Array) -> Array:
    return np.bitwise_count(x.view(f"u{x.dtype.itemsize}")) if hasattr(np, "bitwise_count") else _bit_count_loop(x)


def _bit_count_loop(x: Array) -> Array:
    unsigned = x.view(f"u{x.dtype.itemsize}")
    bits = [(unsigned >> unsigned.dtype.type(i)) & unsigned.dtype.type(1) for i in range(8 * x.dtype.itemsize)]
    result: Array = np.sum(bits, axis=0)
    return result


def _leading_zeros(x: Array) -> Array:
    width = 8 * x.dtype.itemsize
    unsigned = x.view(f"u{x.dtype.itemsize}").copy()
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < width:
            unsigned |= unsigned >> unsigned.dtype.type(shift)
    result: Array = width - _bit_count(unsigned)
    return result


def _first_set(x: Array) -> Array:
    width = 8 * x.dtype.itemsize
    unsigned = x.view(f"u{x.dtype.itemsize}")
    return np.where(x == 0, 0, width - _leading_zeros(unsigned & (~unsigned + unsigned.dtype.type(1))))


_INTEGER: dict[str, Function] = {
    "clz": _leading_zeros,
    "popc": _bit_count,
    "ffs": _first_set,
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "umin": np.minimum,
    "umax": np.maximum,
    "hadd": lambda x, y: (x.astype(object) + y.astype(object)) >> 1,
    "rhadd": lambda x, y: (x.astype(object) + y.astype(object) + 1) >> 1,
    "mulhi": lambda x, y: (x.astype(object) * y.astype(object)) >> (8 * x.dtype.itemsize),
    "sad": lambda x, y, z: np.abs(x.astype(np.int64) - y.astype(np.int64)) + z,
}
# How a symbol spells its type and rounding; numpy rounds to nearest, and a directed rounding is one unit away at most.
_SUFFIXES = ("_rn", "_rz", "_rd", "_ru")
_SPELLINGS = {
    "llabs": "abs",
    "llmin": "min",
    "llmax": "max",
    "ullmin": "umin",
    "ullmax": "umax",
    "clzll": "clz",
    "popcll": "popc",
    "ffsll": "ffs",
    "mul64hi": "mulhi",
    "umulhi": "mulhi",
    "umul64hi": "mulhi",
    "uhadd": "hadd",
    "urhadd": "rhadd",
    "usad": "sad",
    "finitef": "isfinite",
    "isfinited": "isfinite",
    "isnand": "isnan",
    "isinfd": "isinf",
    "signbitd": "signbit",
}


@functools.cache
def _meaning(symbol: str) -> str | None:
    """The function that a libdevice symbol names: `__nv_fast_expf` and `__nv_exp` are both `exp`."""
    name = symbol.removeprefix("__nv_").removeprefix("fast_").removeprefix("dsqrt").removeprefix("fsqrt")
    if symbol.removeprefix("__nv_")[:5] in ("dsqrt", "fsqrt"):
        return "sqrt"
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    known = (_REAL, _TESTS, _INTEGER)
    spellings = [
        name,
        _SPELLINGS.get(name, name),
        name.removesuffix("f"),
        name.removeprefix("f"),
        name.removeprefix("d"),
    ]
    for spelling in spellings:
        if any(spelling in table for table in known):
            return spelling
    return None


def _conversion(symbol: str, values: Array) -> Array | None:
    """Roundings to integers: `__nv_float2int_rd`, `__nv_llrintf`."""
    name = symbol.removeprefix("__nv_")
    if name in ("llrintf", "llrint"):
        return np.rint(values)
    if name in ("llroundf", "llround"):
        return _halves_away(values)
    rounding = {"_rn": np.rint, "_rz": np.trunc, "_rd": np.floor, "_ru": np.ceil}.get(name[-3:])
    if rounding is None or "2" not in name or values.dtype.kind != "f":
        return None
    result: Array = rounding(values)
    return result


def _evaluated(symbol: str, operands: list[Any], result_dtype: Any) -> Array | None:
    """The value of a libdevice function on handles; None where there is no numpy equivalent."""
    arrays = [operand.data for operand in operands]
    name = _meaning(symbol)
    integral = bool(arrays) and arrays[0].dtype.kind in "iu"
    if name in _TESTS:
        return np.asarray(_TESTS[name](arrays[0])).astype(numpy_dtype(result_dtype))
    if name in _INTEGER and integral:
        result = np.asarray(_INTEGER[name](*arrays))
        return result.astype(np.uint64 if result_dtype.is_int_unsigned() else np.int64).astype(
            numpy_dtype(result_dtype)
        )
    if name in _REAL and not integral:
        wide = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in arrays]
        return convert(np.asarray(_REAL[name](*wide), dtype=np.float64), tl.float64, result_dtype)
    converted = _conversion(symbol, arrays[0]) if arrays else None
    if converted is not None:
        source = tl.float64 if converted.dtype == np.float64 else tl.float32
        return convert(converted, source, result_dtype)
    return None


def _extern(_builder: Any, _name: str, _path: str, symbol: str, operands: list[Any], ret_type: Any, *_: Any) -> Any:
    dtype = ret_type.scalar
    data = _evaluated(symbol, operands, dtype)
    if data is None:
        state.unsupported(f"libdevice function {symbol}")
    return interpreter.TensorHandle(data, dtype)


def _inline_assembly(_builder: Any, text: str, *_: Any) -> Any:
    state.unsupported("globaltimer" if "globaltimer" in str(text) else "inline assembly")


def _called(member: Function) -> Function:
    @functools.wraps(member)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = semantic
        return member(*args, **kwargs)

    return call


def _missing(name: str) -> Function:
    def call(*_: Any, **__: Any) -> Any:
        state.unsupported(f"libdevice function {name}")

    return call


def patches() -> list[tuple[Any, str, Any]]:
    """What replaces the libdevice modules' functions during a launch."""
    changes: list[tuple[Any, str, Any]] = []
    for name, member in inspect.getmembers(cuda_libdevice, inspect.isfunction):
        if member.__module__ == cuda_libdevice.__name__:
            changes.append((cuda_libdevice, name, _called(member)))
    for name, _stub in inspect.getmembers(generic, inspect.isfunction):
        target = getattr(cuda_libdevice, name, None)
        changes.append((generic, name, _missing(name) if target is None else _called(target)))
    for name, builtin in inspect.getmembers(cuda, tl.core.is_builtin):
        changes.append((cuda, name, _called(builtin)))
    return changes


def _nothing(*_: Any) -> None:
    """Stand for an instruction that only orders programs."""


def install() -> None:
    """Give the builder its extern functions; what can't be run says so."""
    builder = interpreter.InterpreterBuilder
    builder.create_extern_elementwise = _extern
    builder.create_inline_asm = _inline_assembly
    builder.create_grid_dependency_wait = builder.create_grid_dependency_launch_dependents = _nothing

"""The builder's methods on values that differ between programs (untrusted worker side).

Elementwise methods get the arrays with the axis of programs in front, where it is one axis more. Methods that name axes
have a variant of their own. The rest run once for each program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from . import state
from .programs import Spread, any_spread, lifted, refuse

Array = np.ndarray[Any, Any]
Handle = interpreter.TensorHandle
Method = Callable[..., Any]

_ELEMENTWISE = [
    *("add", "addptr", "and", "approx_divf", "ashr", "bitcast", "ceil", "clampf", "cos", "erf", "exp", "exp2", "fabs"),
    *("fadd", "fdiv", "floor", "fma", "fmul", "fneg", "fp_ext", "fp_to_fp", "fp_to_si", "fp_to_ui", "fp_trunc", "frem"),
    *("fsub", "iabs", "idiv", "int_cast", "int_to_ptr", "log", "log2", "lshr", "maximumf", "maxnumf", "maxsi", "maxui"),
    *("minimumf", "minnumf", "minsi", "minui", "mul", "or", "precise_divf", "precise_sqrt", "ptr_to_int", "rsqrt"),
    *("sdiv", "select", "shl", "si_to_fp", "sin", "sqrt", "srem", "sub", "udiv", "ui_to_fp", "umulhi", "urem", "xor"),
    *(f"icmp{name}" for name in ("EQ", "NE", "SGE", "SGT", "SLE", "SLT", "UGE", "UGT", "ULE", "ULT")),
    *(f"fcmp{order}{name}" for order in "OU" for name in ("EQ", "NE", "GE", "GT", "LE", "LT")),
    # numpy multiplies stacks of matrices one by one: the axis of programs is one more stack.
    "dot",
]
_ONE_BY_ONE = ("histogram", "unsplat", "dot_scaled")
# Their number of quadrature nodes depends on the largest argument in the block.
_WHOLE_BLOCK_FUNCTIONS = ("__nv_j0", "__nv_j0f", "__nv_j1", "__nv_j1f")


def _handles(args: tuple[Any, ...]) -> list[Any]:
    found = []
    for arg in args:
        if isinstance(arg, Handle):
            found.append(arg)
        elif isinstance(arg, (list, tuple)):
            found.extend(item for item in arg if isinstance(item, Handle))
    return found


def _replaced(args: tuple[Any, ...], change: Callable[[Any], Any]) -> list[Any]:
    """The arguments with every handle changed, also in lists."""
    return [
        change(arg)
        if isinstance(arg, Handle)
        else [change(item) if isinstance(item, Handle) else item for item in arg]
        if isinstance(arg, list)
        else arg
        for arg in args
    ]


def _opened(handle: Any) -> Any:
    return Handle(handle.lanes, handle.dtype) if type(handle) is Spread else handle


def elementwise(method: Method) -> Method:
    """The method for operands of one rank, some of them spread."""

    def call(builder: Any, *args: Any) -> Any:
        handles = _handles(args)
        if not any_spread(handles):
            return method(builder, *args)
        ranks = {handle.raw.ndim - handle.spread for handle in handles if handle.spread or handle.raw.shape != (1,)}
        if len(ranks) > 1:
            refuse("an elementwise operation on blocks of several ranks")
        result = method(builder, *_replaced(args, _opened))
        return Spread(result.data, result.dtype)

    return call


def one_by_one(method: Method) -> Method:
    """The method run for each program by itself."""

    def call(builder: Any, *args: Any, **kwargs: Any) -> Any:
        handles = _handles(args)
        if not any_spread(handles):
            return method(builder, *args, **kwargs)
        count = next(handle.lanes.shape[0] for handle in handles if handle.spread)
        results = []
        for program in range(count):

            def own(handle: Any, program: int = program) -> Any:
                if not handle.spread:
                    return handle
                lanes = handle.lanes
                return Handle(lanes[program : program + 1] if lanes.ndim == 1 else lanes[program], handle.dtype)

            results.append(method(builder, *_replaced(args, own), **kwargs))
        return Spread(np.stack([result.data for result in results]), results[0].dtype)

    return call


# ---------------------------------------------------------------- methods that name axes


def _whole(handle: Any, count: int) -> Array:
    """The values of a block in every program."""
    raw: Array = handle.raw
    return raw if handle.spread else np.broadcast_to(raw, (count, *raw.shape))


def _several(handles: tuple[Any, ...]) -> list[Array]:
    count = next(handle.lanes.shape[0] for handle in handles if handle.spread)
    return [_whole(handle, count) for handle in handles]


def _reshape(arg: Any, shape: Any, *_: Any) -> Any:
    return Spread(arg.lanes.reshape((arg.lanes.shape[0], *shape)), arg.dtype)


def _trans(arg: Any, order: Any) -> Any:
    return Spread(np.transpose(arg.lanes, (0, *(axis + 1 for axis in order))), arg.dtype)


def _expand_dims(arg: Any, axis: int) -> Any:
    return Spread(np.expand_dims(arg.lanes, axis + 1), arg.dtype)


def _broadcast(arg: Any, shape: Any) -> Any:
    lanes = lifted(arg.lanes, len(shape) + 1 - arg.lanes.ndim)
    return Spread(np.broadcast_to(lanes, (lanes.shape[0], *shape)), arg.dtype)


def _splat(type_: Any, arg: Any) -> Any:
    count, shape = arg.lanes.shape[0], tuple(type_.shape)
    if arg.lanes.size != count:
        refuse("a block where a scalar is wanted")
    return Spread(np.broadcast_to(arg.lanes.reshape((count,) + (1,) * len(shape)), (count, *shape)), arg.dtype.scalar)


def _cat(left: Any, right: Any) -> Any:
    return Spread(np.concatenate(_several((left, right)), axis=1), left.dtype)


def _join(left: Any, right: Any) -> Any:
    return Spread(np.stack(_several((left, right)), axis=-1), left.dtype)


def _split(arg: Any) -> Any:
    return Spread(arg.lanes[..., 0], arg.dtype), Spread(arg.lanes[..., 1], arg.dtype)


def _gather(source: Any, indices: Any, axis: int) -> Any:
    values, places = _several((source, indices))
    return Spread(np.take_along_axis(values, places, axis=axis + 1 if axis >= 0 else axis), source.dtype)


_NAMING_AXES: dict[str, Method] = {
    "reshape": _reshape,
    "trans": _trans,
    "expand_dims": _expand_dims,
    "broadcast": _broadcast,
    "splat": _splat,
    "cat": _cat,
    "join": _join,
    "split": _split,
    "gather": _gather,
}


def _either(method: Method, spread: Method) -> Method:
    def call(builder: Any, *args: Any, **kwargs: Any) -> Any:
        return spread(*args, **kwargs) if any_spread(args) else method(builder, *args, **kwargs)

    return call


def _extern(method: Method) -> Method:
    together, apart = elementwise(method), one_by_one(method)

    def call(builder: Any, name: str, path: str, symbol: str, *args: Any) -> Any:
        return (apart if symbol in _WHOLE_BLOCK_FUNCTIONS else together)(builder, name, path, symbol, *args)

    return call


def _program_id(method: Method) -> Method:
    def call(builder: Any, axis: int) -> Any:
        programs = state.current.session.memory.programs
        if programs is None:
            return method(builder, axis)
        return (Spread if programs.count > 1 else Handle)(programs.ids[axis], tl.int32)

    return call


def install() -> None:
    """Wrap the builder's methods as they are now; methods that touch memory look after themselves."""
    builder = interpreter.InterpreterBuilder
    wrappers: dict[str, Callable[[Method], Method]] = {
        **dict.fromkeys(_ELEMENTWISE, elementwise),
        **dict.fromkeys(_ONE_BY_ONE, one_by_one),
        "extern_elementwise": _extern,
        "get_program_id": _program_id,
    }
    for name, spread in _NAMING_AXES.items():
        wrappers[name] = lambda method, spread=spread: _either(method, spread)  # type: ignore[misc]
    for name, wrapper in wrappers.items():
        method = getattr(builder, f"create_{name}", None)
        if method is not None:
            setattr(builder, f"create_{name}", wrapper(method))

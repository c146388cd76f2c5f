"""Running a kernel over its grid, and the record of it (untrusted worker side).

A launch checks its keyword arguments as the compiler would, tags its pointers, applies the language patches once for
all programs, and runs the rewritten kernel program by program.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter, jit
from triton.tools.tensor_descriptor import TensorDescriptor

from . import batching, state
from .language import Patches
from .memory import Memory
from .numerics import convert
from .regions import TAG_SHIFT
from .rewrite import rewrite
from .tensors import Tensor, block_layout, make, semantic

_RESERVED = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg", "debug", "ir_override", "launch_pdl"})


class _Runtime:
    """What `install` sets up once: the language patches and the rewritten functions."""

    patches: Patches
    stand_ins: dict[int, Any]

    def __init__(self) -> None:
        self.rewritten: dict[types.FunctionType, Callable[..., Any]] = {}
        self.parameters: dict[types.FunctionType, _Parameters] = {}


runtime = _Runtime()


class _Parameters:
    """The signature of a kernel: which parameters are compile-time constants, which have a declared type."""

    def __init__(self, fn: types.FunctionType) -> None:
        self.signature = inspect.signature(fn)
        self.annotations: dict[str, str] = {}
        for name, parameter in self.signature.parameters.items():
            if parameter.annotation is not inspect.Parameter.empty:
                # A quoted annotation under `from __future__ import annotations` carries its quotes along.
                annotation = parameter.annotation
                if isinstance(annotation, str):
                    annotation = annotation.strip("'\" ")
                self.annotations[name] = jit._normalize_ty(annotation)

    def is_constant(self, name: str) -> bool:
        return "constexpr" in self.annotations.get(name, "")


def _launch_options() -> frozenset[str]:
    """Keyword arguments of a launch that are no kernel parameters."""
    try:
        from triton.backends.nvidia.compiler import CUDAOptions
    except ImportError:
        return _RESERVED
    return _RESERVED | {field.name for field in dataclasses.fields(CUDAOptions)}


def _new_session(options: state.Options) -> state.Session:
    session = state.Session(options)
    session.memory = Memory(session)
    return session


@contextmanager
def record(options: state.Options) -> Iterator[state.Record]:
    """Record what kernels do during one call of an entry point.

    The record is complete when the block ends, also by an exception.
    """
    session = _new_session(options)
    session.recording = True
    original = torch.Tensor.data_ptr

    def data_ptr(self: torch.Tensor) -> int:
        session.memory.regions.ask(self)
        return original(self)

    with state.switch(session):
        torch.Tensor.data_ptr = data_ptr  # type: ignore[method-assign,assignment]
        try:
            yield session.record
        finally:
            torch.Tensor.data_ptr = original  # type: ignore[method-assign]
            loaded, stored = session.memory.regions.unique_bytes()
            session.record.unique_bytes_loaded, session.record.unique_bytes_stored = loaded, stored
            if options.inputs is not None:
                session.record.inputs_loaded = session.memory.regions.loaded_between(*options.inputs)


def stored_elements(tensor: torch.Tensor) -> int | None:
    """How many elements of a tensor kernels of this call stored to; None where it was no argument of any."""
    count: int | None = state.current.session.memory.regions.stored_elements(tensor)
    return count


def rewritten(fn: types.FunctionType) -> Callable[..., Any]:
    """The function that runs in place of the kernel or helper `fn`."""
    result = runtime.rewritten.get(fn)
    if result is None:
        result = runtime.rewritten[fn] = rewrite(fn, runtime.stand_ins)
    return result


# ---------------------------------------------------------------- arguments


def _scalar(value: float, annotation: str) -> Tensor:
    """A number as a launch passes it: int32 or int64 by value, float32, or the declared type."""
    if isinstance(value, bool):
        dtype = tl.int1
    elif isinstance(value, int):
        dtype = tl.str_to_ty(jit.mangle_type(value), None)
    else:
        dtype = tl.float32
    source = dtype
    if annotation[:1] in "ifub" and annotation not in ("", "int", "float", "bool"):
        declared = tl.str_to_ty(annotation, None)
        if isinstance(declared, tl.core.dtype) and not declared.is_ptr():
            dtype = declared
    wide = {"i": np.int64, "f": np.float64}.get("f" if isinstance(value, float) else "i")
    if isinstance(value, int) and value >= 1 << 63:
        wide = np.uint64
    data = np.array([value], dtype=bool if source.name == "int1" else wide)
    held = source if source.name == "int1" else (tl.float64 if data.dtype.kind == "f" else tl.int64)
    return make(convert(data, held, dtype), block_layout(dtype, ()))


def _pointer(name: str, value: Any, annotation: str) -> Tensor:
    mangled = jit.mangle_type(value)
    if "const" in annotation or annotation.startswith("*k"):
        mangled = f"*k{mangled.lstrip('*k')}"
    dtype = tl.str_to_ty(mangled, None)
    tensor = value.base if isinstance(value, jit.TensorWrapper) else value
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"argument '{name}' has a data_ptr but is no tensor: {type(value).__name__}")
    if tensor.device.type != "cpu":
        raise ValueError(f"argument '{name}' is on {tensor.device}; interpreted kernels take CPU tensors")
    regions = state.current.session.memory.regions
    element_name = str(value.dtype).removeprefix("torch.")
    region = regions.tag(name, tensor, element_name, tensor.element_size())
    if region is None:
        regions.ask(tensor)
        address = tensor.data_ptr()
    else:
        address = region.low | (region.tag << TAG_SHIFT)
    return make(np.array([address], dtype=np.uint64), block_layout(dtype, ()))


def convert_argument(name: str, value: Any, annotation: str = "") -> Any:
    """A launch argument as the kernel sees it."""
    if isinstance(value, (bool, int, float)):
        return _scalar(value, annotation)
    if isinstance(value, tl.constexpr):
        return value.value
    if hasattr(value, "data_ptr"):
        return _pointer(name, value, annotation)
    if isinstance(value, tuple):
        items = [convert_argument(f"{name}[{i}]", item) for i, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, TensorDescriptor):
        strides = [convert_argument(name, stride) for stride in value.strides]
        strides[-1] = tl.constexpr(1)
        descriptor = semantic.make_tensor_descriptor(
            base=_pointer(name, value.base, ""),
            shape=[convert_argument(name, size) for size in value.shape],
            strides=strides,
            block_shape=[tl.constexpr(size) for size in value.block_shape],
            padding_option=value.padding,
        )
        descriptor.handle.round_f32_to_tf32 = getattr(value, "round_f32_to_tf32", False)
        return descriptor
    return value


# ---------------------------------------------------------------- the launch itself


def _grid(grid: Any, arguments: dict[str, Any]) -> tuple[int, int, int]:
    sizes = grid(arguments) if callable(grid) else grid
    sizes = tuple(operator.index(size) for size in sizes)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"grid must have one to three dimensions, has {len(sizes)}")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _bind(
    fn: types.FunctionType, parameters: _Parameters, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    names = parameters.signature.parameters
    known = {name: value for name, value in kwargs.items() if name in names}
    for name in kwargs:
        if name not in names and name not in _OPTIONS:
            raise KeyError(f"Keyword argument {name} of kernel {fn.__name__} was specified but unrecognised")
    bound = parameters.signature.bind(*args, **known)
    bound.apply_defaults()
    return dict(bound.arguments)


_OPTIONS = _launch_options()


def launch(function: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run an interpreted kernel over its grid.

    Raises:
        KeyError: a keyword argument that is neither a parameter nor a launch option.
        TypeError: arguments that don't fit the kernel's signature.
        Unsupported: the kernel uses what a CPU can't do.

    """
    session = state.current.session
    if not session.recording and not runtime.patches.active:
        session = _new_session(session.options)
    with state.switch(session):
        _launch(session, function, grid, args, kwargs)


def _launch(session: state.Session, function: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    fn = function.fn
    parameters = runtime.parameters.get(fn)
    if parameters is None:
        parameters = runtime.parameters[fn] = _Parameters(fn)
    arguments = _bind(fn, parameters, args, kwargs)
    for hook in function.pre_run_hooks:
        hook(*args, **kwargs)
    sizes = _grid(grid, arguments)
    config, session.config = session.config, None
    num_configs, session.num_configs = session.num_configs, 1
    session.record.launch_count += 1
    if len(session.record.launches) < state.KEPT_LAUNCHES:
        session.record.launches.append(state.Launch(fn.__name__, list(sizes), config, num_configs))
    if session.options.silenced:
        return
    body = rewritten(fn)
    with runtime.patches, np.errstate(all="ignore"):
        values = {
            name: tl.core._unwrap_if_constexpr(value)
            if parameters.is_constant(name)
            else convert_argument(name, value, parameters.annotations.get(name, ""))
            for name, value in arguments.items()
        }
        session.memory.begin_launch()
        session.body = functools.partial(body, **values)
        interpreter.interpreter_builder.set_grid_dim(*sizes)
        done = batching.run(session, fn, sizes, values)
        run_programs(session, sizes, done)


def run_programs(session: state.Session, sizes: tuple[int, int, int], first: int) -> None:
    """Run the programs of the grid from number `first` on, one after the other."""
    builder = interpreter.interpreter_builder
    memory = session.memory
    for index in range(first, sizes[0] * sizes[1] * sizes[2]):
        rest, z = divmod(index, sizes[2])
        session.program = builder.grid_idx = (*divmod(rest, sizes[1]), z)
        memory.program_index = index
        session.body()


def install(extra_patches: list[tuple[Any, str, Any]]) -> None:
    """Route launches and calls of interpreted functions through this module."""
    # Triton imports more of itself on the first use of this; under the patches those modules would keep our functions.
    jit.mangle_type(torch.empty(0))
    runtime.patches = Patches(extra_patches)
    runtime.stand_ins = runtime.patches.stand_ins()

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        if warmup:
            state.unsupported("kernel.warmup(), which compiles for a GPU")
        launch(self, grid, args, kwargs)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not runtime.patches.active:
            raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")
        return rewritten(self.fn)(*args, **kwargs)

    interpreter.InterpretedFunction.run = run
    interpreter.InterpretedFunction.__call__ = call
    interpreter.GridExecutor.__call__ = _refuse


def _refuse(*_: Any, **__: Any) -> None:
    raise RuntimeError("a launch went past the grader's interpreter")

"""What Python constructs mean inside a kernel, and Triton's functions while one runs (untrusted worker side).

`Patches` replaces the builtins in `triton.language` for the duration of a launch and puts the originals back, so that
code between launches, and a later compile, see Triton as it is.
"""

from __future__ import annotations

import builtins
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from . import state
from .programs import Diverged, refuse
from .tensors import Tensor, block_layout, builtin, make, number_type, semantic

_MISSING = object()


class Later:
    """An operand of `and` or `or` that is evaluated only when its turn comes."""

    __slots__ = ("evaluate",)

    def __init__(self, evaluate: Callable[[], Any]) -> None:
        self.evaluate = evaluate


def _operand(value: Any) -> Any:
    return value.evaluate() if type(value) is Later else value


def _logical(method: str, decides: bool, operands: tuple[Any, ...]) -> Any:
    """Triton's rule: constants short-circuit, tensors combine elementwise."""
    result: Any = _MISSING
    last: Any = None
    for operand in operands:
        last = _operand(operand)
        if not isinstance(last, tl.tensor):
            if builtins.bool(last) is decides:
                return last
        elif result is _MISSING:
            result = last
        else:
            result = getattr(result, method)(last)
    return last if result is _MISSING else result


def logical_and(*operands: Any) -> Any:
    """`a and b`."""
    return _logical("logical_and", False, operands)


def logical_or(*operands: Any) -> Any:
    """`a or b`."""
    return _logical("logical_or", True, operands)


def logical_not(operand: Any) -> Any:
    """`not a`."""
    return semantic.not_(operand) if isinstance(operand, tl.tensor) else not operand


def assign(value: Any) -> Any:
    """What a variable holds after `name = value`: numbers become scalars of Triton's types."""
    kind = type(value)
    if kind is Tensor:
        return value
    if kind in (int, float, bool):
        return semantic.to_tensor(value)
    if kind is tl.constexpr and type(value.value) in (int, float, bool):
        return semantic.to_tensor(value.value)
    if kind is tuple:
        return tuple(assign(item) for item in value)
    return value


def value_of(owner: Any) -> Any:
    """`owner.value`: constexpr arguments are plain numbers here, and are their own value."""
    return owner if isinstance(owner, (int, float, str, type(None))) else owner.value


def _extreme(function: str, plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not any(isinstance(arg, tl.tensor) for arg in args):
        return plain(*args, **kwargs)
    result = args[0]
    for arg in args[1:]:
        result = builtin(getattr(tl.core, function))(result, arg)
    return result


def minimum(*args: Any, **kwargs: Any) -> Any:
    """Python's `min` inside a kernel."""
    return _extreme("minimum", builtins.min, args, kwargs)


def maximum(*args: Any, **kwargs: Any) -> Any:
    """Python's `max` inside a kernel."""
    return _extreme("maximum", builtins.max, args, kwargs)


def _bound(value: Any) -> tuple[Any, str]:
    """A loop bound, an array of them where programs differ, and its type."""
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, tl.tensor):
        if not value.dtype.is_int() or value.type.is_block():
            raise TypeError(f"for loop bounds and step must all be ints, are {value.type}")
        if value.handle.spread:
            return value.handle.raw, value.dtype.name
        return int(value.__index__()), value.dtype.name
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"for loop bounds and step must all be ints, are {type(value).__name__}")
    return value, number_type(value).name


def loop_range(start: Any, stop: Any = None, step: Any = 1, **_options: Any) -> Iterator[Any]:
    """`range` and `tl.range`: the loop variable is an integer scalar that wraps like one."""
    if stop is None:
        start, stop = 0, start
    bounds = [_bound(start), _bound(stop), _bound(1 if step is None else step)]
    dtype = tl.int32
    for _, name in bounds:
        dtype = semantic.integer_promote_impl(dtype, tl.core.dtype(name))
    layout = block_layout(dtype, ())
    kind = np.dtype(dtype.name)
    if any(isinstance(value, np.ndarray) for value, _ in bounds):
        yield from _spread_range([value for value, _ in bounds], kind, layout)
        return
    for number in range(*(value for value, _ in bounds)):
        yield make(np.array([number], dtype=kind), layout)


def _spread_range(bounds: list[Any], kind: np.dtype[Any], layout: Any) -> Iterator[Any]:
    """A loop whose bounds differ between programs.

    Raises:
        Diverged: the programs go round it a different number of times.

    """
    if kind == np.uint64:
        refuse("a loop over uint64 that differs between programs")
    starts, stops, steps = np.broadcast_arrays(*(np.asarray(bound, dtype=np.int64) for bound in bounds))
    rounds = np.array([len(range(*each)) for each in zip(*map(np.ndarray.tolist, (starts, stops, steps)), strict=True)])
    if (rounds != rounds[0]).any():
        raise Diverged(rounds)
    spread = isinstance(bounds[0], np.ndarray) or isinstance(bounds[2], np.ndarray)
    if not spread:
        starts, steps = starts[:1], steps[:1]
    for turn in range(int(rounds[0])):
        yield make((starts + turn * steps).astype(kind), layout, spread)


def _static_range(start: Any, stop: Any = None, step: Any = None, **_options: Any) -> Iterator[int]:
    numbers = [tl.core._unwrap_if_constexpr(value) for value in (start, stop, step)]
    if numbers[1] is None:
        numbers[0], numbers[1] = 0, numbers[0]
    return iter(range(numbers[0], numbers[1], 1 if numbers[2] is None else numbers[2]))


def printed(*args: Any, **kwargs: Any) -> None:
    """`print` and `tl.static_print`, by every program in turn."""
    if state.current.session.memory.together is not None:
        refuse("prints")
    builtins.print(*args, **kwargs)  # noqa: T201 - the student's


def _static_assert(condition: Any, message: Any = "") -> None:
    if not tl.core._unwrap_if_constexpr(condition):
        raise AssertionError(message)


def _hint(block: Any, _values: Any) -> Any:
    """`tl.multiple_of` and the like promise something to the compiler and compute nothing."""
    return block


def _dot_scaled(*args: Any, **kwargs: Any) -> Any:
    """`tl.dot_scaled` looks into its format names, which the compiler wraps and Python doesn't."""
    wrapped = [tl.constexpr(arg) if isinstance(arg, str) else arg for arg in args]
    named = {name: tl.constexpr(arg) if isinstance(arg, str) else arg for name, arg in kwargs.items()}
    return builtin(_ORIGINAL_DOT_SCALED)(*wrapped, **named)


_ORIGINAL_DOT_SCALED = tl.core.dot_scaled


class Patches:
    """Triton's names and what they are while a kernel runs."""

    def __init__(self, extra: list[tuple[Any, str, Any]]) -> None:
        self._depth = 0
        changes: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        for owner, name, value in [*_recorded(), *_builtins(), *_replacements(), *extra]:
            changes[id(owner), name] = (owner, name, value)
        self.changes = list(changes.values())
        self._originals = [vars(owner).get(name, _MISSING) for owner, name, _ in self.changes]
        # Modules change at once, by way of their dictionaries: there are hundreds of names, and a launch may be short.
        self._modules: dict[int, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {}
        self._others: list[tuple[Any, str, Any, Any]] = []
        for (owner, name, value), original in zip(self.changes, self._originals, strict=True):
            if isinstance(owner, types.ModuleType) and original is not _MISSING:
                _, patched, unpatched = self._modules.setdefault(id(owner), (vars(owner), {}, {}))
                patched[name], unpatched[name] = value, original
            else:
                self._others.append((owner, name, value, original))

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            for names, patched, _ in self._modules.values():
                names.update(patched)
            for owner, name, value, _ in self._others:
                setattr(owner, name, value)

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            for names, _patched, originals in self._modules.values():
                names.update(originals)
            for owner, name, _, original in self._others:
                if original is _MISSING:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)

    @property
    def active(self) -> bool:
        """Whether a kernel is running."""
        return self._depth > 0

    def stand_ins(self) -> dict[int, Any]:
        """What runs instead of each original function, by the original's id."""
        return {
            id(original): value
            for (_, _, value), original in zip(self.changes, self._originals, strict=True)
            if callable(original) and callable(value) and not isinstance(original, type)
        }


def _recorded() -> list[tuple[Any, str, Any]]:
    """The interpreter's own patches: it applies them on every call, here they are taken down once."""

    def stub() -> None:
        """Stand for a kernel: only its globals count."""

    scope = interpreter._patch_lang(types.FunctionType(stub.__code__, {"tl": tl, "core": tl.core}))
    changed = [(owner, name) for owner, name, _ in scope._changes]
    result = [(owner, name, vars(owner)[name]) for owner, name in changed if owner is not tl.tensor]
    scope.restore()
    return result


def _builtins() -> list[tuple[Any, str, Any]]:
    owners = [tl, tl.core, tl.math, tl.core.tensor_descriptor_base, tl.core.tensor_descriptor]
    return [
        (owner, name, builtin(member))
        for owner in owners
        for name, member in inspect.getmembers(owner, tl.core.is_builtin)
        if name in vars(owner)
    ]


def _replacements() -> list[tuple[Any, str, Any]]:
    values = {
        "tensor": Tensor,
        "range": loop_range,
        "static_range": _static_range,
        "static_assert": _static_assert,
        "static_print": printed,
        "dot_scaled": _dot_scaled,
        **dict.fromkeys(("multiple_of", "max_contiguous", "max_constancy"), _hint),
    }
    return [(owner, name, value) for owner in (tl, tl.core) for name, value in values.items()]

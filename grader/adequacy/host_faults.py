"""The faults that are put into the code that launches kernels: grids, strides, results. Pure."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from .place import Place, called, keyword_of

Fault = tuple[ast.expr | ast.stmt, str]


def floor_division(place: Place) -> Iterator[Fault]:
    """A number of blocks that is rounded down."""
    node = place.node
    if (called(node, ("cdiv",)) or called(node, ("cdiv",), "triton")) and isinstance(node, ast.Call):
        yield node, f"({place.of(node.args[0])} // {place.of(node.args[1])})"


def fewer_programs(place: Place) -> Iterator[Fault]:
    """One program fewer along a dimension of the grid."""
    if isinstance(place.node, ast.expr) and _is_grid_dimension(place):
        yield place.node, f"max(1, {place.of(place.node)} - 1)"


def _is_grid_dimension(place: Place) -> bool:
    sizes = place.parent
    if not isinstance(sizes, ast.Tuple) or place.in_kernel:
        return False
    holder = place.source.parents.get(sizes)
    if isinstance(holder, ast.Assign):
        return ast.unparse(holder.targets[0]) == "grid"
    if isinstance(holder, ast.Lambda):
        return "meta" in [argument.arg for argument in holder.args.args]
    call = place.source.parents.get(holder) if isinstance(holder, ast.Subscript) else None
    return isinstance(call, ast.Call) and call.func is holder


def wrong_strides(place: Place) -> Iterator[Fault]:
    """A tensor's strides in the wrong order."""
    node = place.node
    if place.in_kernel or not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Attribute):
        return
    if node.func.attr == "stride":
        yield node, f"{place.of(node)}[::-1]"


def result_dtype(place: Place) -> Iterator[Fault]:
    """A result, or what one kernel leaves for the next, in another dtype."""
    node = place.node
    if not place.in_kernel and called(node, ("empty", "zeros"), "torch"):
        dtype = keyword_of(node, "dtype")  # type: ignore[arg-type]
        if dtype is not None:
            wide = ast.unparse(dtype) == "torch.float32"
            yield node, place.call(dtype="torch.float16" if wide else "torch.float32")


def result_is_input(place: Place) -> Iterator[Fault]:
    """The result is written over an input."""
    node = place.node
    if not place.in_kernel and called(node, ("empty_like",), "torch") and isinstance(node, ast.Call):
        yield node, place.of(node.args[0])


def not_zeroed(place: Place) -> Iterator[Fault]:
    """Memory that is added to starts with what was there before."""
    node = place.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "zero_":
        yield node, place.of(node.func.value)


MUTATORS: tuple[Callable[[Place], Iterator[Fault]], ...] = (
    floor_division, fewer_programs, wrong_strides, result_dtype, result_is_input, not_zeroed,
)  # fmt: skip

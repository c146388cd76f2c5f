"""The faults that are put into solutions: each mutator looks at one node and gives what it could wrongly be. Pure.

They are the mistakes that kernels are handed in with: masks, strides, grids and bounds that are a little off, steps of
the formula left out, sums in too few bits. Arithmetic is changed in kernels only: on the host it mostly sets blocks.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from . import host_faults
from .place import Place, called, keyword_of

Fault = tuple[ast.expr | ast.stmt, str]
Mutator = Callable[[Place], Iterator[Fault]]

ACCESSES = ("load", "store", "atomic_add")
OTHER_COMPARISON: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
}  # fmt: skip
OTHER_FUNCTION: Mapping[str, str] = {
    "exp": "exp2", "exp2": "exp", "log2": "log", "log": "log2", "rsqrt": "sqrt", "max": "min", "sum": "max",
    "maximum": "minimum", "minimum": "maximum",
}  # fmt: skip


def drop_mask(place: Place) -> Iterator[Fault]:
    """A load or store without its mask."""
    if called(place.node, ACCESSES) and keyword_of(place.node, "mask") is not None:  # type: ignore[arg-type]
        yield place.node, place.call(without="mask")


def half_mask(place: Place) -> Iterator[Fault]:
    """One of two conditions is missing."""
    node = place.node
    if place.in_kernel and isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
        yield node, place.of(node.left)
        yield node, place.of(node.right)


def comparison(place: Place) -> Iterator[Fault]:
    """< for <=, == for != and so on."""
    node = place.node
    if place.in_kernel and isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER_COMPARISON:
        yield node, f"{place.of(node.left)} {OTHER_COMPARISON[type(node.ops[0])]} {place.of(node.comparators[0])}"


def bound_off_by_one(place: Place) -> Iterator[Fault]:
    """A bound that is one lower, or where it is included, one higher."""
    node = place.node
    if place.in_kernel and isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt | ast.LtE):
        by = "< ", " - 1"
        if isinstance(node.ops[0], ast.LtE):
            by = "<= ", " + 1"
        yield node, f"{place.of(node.left)} {by[0]}{place.of(node.comparators[0])}{by[1]}"


def drop_other(place: Place) -> Iterator[Fault]:
    """What a masked load gives is left open."""
    if called(place.node, ("load",)) and keyword_of(place.node, "other") is not None:  # type: ignore[arg-type]
        yield place.node, place.call(without="other")


def change_other(place: Place) -> Iterator[Fault]:
    """A masked load gives a number that is not neutral."""
    if called(place.node, ("load",)):
        other = keyword_of(place.node, "other")  # type: ignore[arg-type]
        if other is not None:
            yield place.node, place.call(other="1.0" if ast.unparse(other) == "0.0" else "0.0")


def _strides(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and "stride" in node.value.id
    return isinstance(node, ast.Name) and "stride" in node.id and isinstance(node.ctx, ast.Load)


def stride_one(place: Place) -> Iterator[Fault]:
    """A stride is taken for 1."""
    parent = place.parent
    if place.in_kernel and _strides(place.node) and isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
        yield place.node, "1"


def swapped_stride(place: Place) -> Iterator[Fault]:
    """The stride of another dimension of the same tensor."""
    node = place.node
    if not place.in_kernel or not _strides(node):
        return
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
        yield node, f"{place.of(node.value)}[{node.slice.value ^ 1}]"
    if isinstance(node, ast.Name):
        tensor = node.id.rpartition("stride")[0]
        others = [name for name in place.parameters if name.rpartition("stride")[0] == tensor and "stride" in name]
        if node.id in others and len(others) > 1:
            yield node, others[(others.index(node.id) + 1) % len(others)]


def offsets_32_bits(place: Place) -> Iterator[Fault]:
    """Offsets stay 32 bits wide."""
    node = place.node
    if place.in_kernel and isinstance(node, ast.Call) and node.args and ast.unparse(node.args[-1]) == "tl.int64":
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            yield node, place.of(node.func.value)
        elif called(node, ("cast",)):
            yield node, place.of(node.args[0])


def drop_cast(place: Place) -> Iterator[Fault]:
    """What was loaded is not converted to float32."""
    node = place.node
    if (
        place.in_kernel
        and isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "to"
        and ast.unparse(node.args[0]) == "tl.float32"
    ):
        yield node, place.of(node.func.value)


def accumulator_dtype(place: Place) -> Iterator[Fault]:
    """A running total in the dtype of the inputs."""
    node = place.node
    if not place.in_kernel or not _in_loop(place):
        return
    rounded = f".to({place.input_dtype}).to(tl.float32)"
    totals = _accumulators(place.functions[0])
    if isinstance(node, ast.AugAssign) and ast.unparse(node.target) in totals and isinstance(node.op, ast.Add):
        target = ast.unparse(node.target)
        yield node, f"{target} = ({target} + {place.of(node.value)}){rounded}"
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in totals:
        yield node, f"{ast.unparse(node.targets[0])} = ({place.of(node.value)}){rounded}"


def _in_loop(place: Place) -> bool:
    node: ast.AST | None = place.node
    while (node := place.source.parents.get(node) if node else None) is not None:
        if isinstance(node, ast.For):
            return True
    return False


def _accumulators(function: ast.FunctionDef) -> set[str]:
    """The names that start as tensors of float32."""
    return {
        ast.unparse(node.targets[0])
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and called(node.value, ("zeros", "full"))
        and "float32" in ast.unparse(node.value)
    }


def low_precision_sum(place: Place) -> Iterator[Fault]:
    """Terms are added up in the dtype of the inputs."""
    node = place.node
    if place.in_kernel and called(node, ("sum",)) and isinstance(node, ast.Call):
        rest = ", ".join([f"{place.of(node.args[0])}.to({place.input_dtype})", *map(place.of, node.args[1:]),
                          *(f"{k.arg}={place.of(k.value)}" for k in node.keywords)])  # fmt: skip
        yield node, f"tl.sum({rest})"


def drop_term(place: Place) -> Iterator[Fault]:
    """A term is missing: the maximum, a rescaled part, eps, an offset."""
    node = place.node
    if place.in_kernel and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield node, place.of(node.left)
        if isinstance(node.op, ast.Add):
            yield node, place.of(node.right)


def drop_factor(place: Place) -> Iterator[Fault]:
    """A factor or divisor is missing: the scale, the weight, the length of a row."""
    node = place.node
    if place.in_kernel and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        yield node, place.of(node.left)
        if isinstance(node.op, ast.Mult):
            yield node, place.of(node.right)


def drop_update(place: Place) -> Iterator[Fault]:
    """A value that is carried from one iteration to the next stays as it was."""
    node = place.node
    if not place.in_kernel:
        return
    if isinstance(node, ast.AugAssign):
        yield node, "pass"
    elif isinstance(node, ast.Assign) and _in_loop(place) and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        earlier = [
            other
            for other in ast.walk(place.functions[0])
            if isinstance(other, ast.Assign) and other.lineno < node.lineno and ast.unparse(other.targets[0]) == name
        ]
        if earlier:
            yield node, "pass"


def keep_last_part(place: Place) -> Iterator[Fault]:
    """A partial sum replaces the others."""
    node = place.node
    if place.in_kernel and isinstance(node, ast.AugAssign) and _in_loop(place):
        yield node, f"{ast.unparse(node.target)} = {place.of(node.value)}"
    if called(node, ("dot",)) and isinstance(node, ast.Call) and len(node.args) == 3:
        rest = [place.of(argument) for argument in node.args[:2]]
        rest += [f"{k.arg}={place.of(k.value)}" for k in node.keywords]
        yield node, f"tl.dot({', '.join(rest)})"


def change_constant(place: Place) -> Iterator[Fault]:
    """A constant of the formula that is one in a hundred off; 1 for 0."""
    node = place.node
    if isinstance(node, ast.Constant) and isinstance(node.value, float):
        yield node, repr(node.value * 1.01) if node.value else "1.0"


def drop_bound(place: Place) -> Iterator[Fault]:
    """A maximum or minimum of two is only one of them."""
    if called(place.node, ("maximum", "minimum")) and isinstance(place.node, ast.Call):
        yield place.node, place.of(place.node.args[0])
        yield place.node, place.of(place.node.args[1])


def drop_choice(place: Place) -> Iterator[Fault]:
    """A choice between two is always the same."""
    if called(place.node, ("where",)) and isinstance(place.node, ast.Call):
        yield place.node, place.of(place.node.args[2])
        yield place.node, place.of(place.node.args[1])


def other_branch(place: Place) -> Iterator[Fault]:
    """A condition is taken for its opposite."""
    node, parent = place.node, place.parent
    if place.in_kernel and isinstance(parent, ast.If | ast.IfExp) and node is parent.test:
        yield node, f"not {place.of(node)}"


def other_function(place: Place) -> Iterator[Fault]:
    """Another function: exp for exp2, a maximum for a sum."""
    if place.in_kernel and called(place.node, tuple(OTHER_FUNCTION)) and isinstance(place.node, ast.Call):
        assert isinstance(place.node.func, ast.Attribute)
        yield place.node, place.call(f"tl.{OTHER_FUNCTION[place.node.func.attr]}")


def wrong_axis(place: Place) -> Iterator[Fault]:
    """A reduction over the other dimension."""
    if place.in_kernel and isinstance(place.node, ast.Call):
        axis = keyword_of(place.node, "axis")
        if isinstance(axis, ast.Constant):
            yield place.node, place.call(axis="0" if axis.value else "1")


def wrong_program_axis(place: Place) -> Iterator[Fault]:
    """The program's number along another dimension of the grid."""
    if called(place.node, ("program_id", "num_programs")) and isinstance(place.node, ast.Call):
        (axis,) = place.node.args
        yield axis, "0" if ast.unparse(axis) == "1" else "1"


def loop_bounds(place: Place) -> Iterator[Fault]:
    """A loop leaves out its last element, its first or last tile, or every second."""
    node = place.node
    if not place.in_kernel or not isinstance(place.parent, ast.For) or not isinstance(node, ast.Call):
        return
    arguments = [place.of(argument) for argument in node.args]
    function = place.of(node.func)
    if len(arguments) == 1:
        yield node, f"{function}({arguments[0]} - 1)"
    if len(arguments) == 3:
        start, stop, step = arguments
        for wrong in (f"{start}, {stop} - 1, {step}", f"{start}, {stop} - {step}, {step}",
                      f"{start} + {step}, {stop}, {step}", f"{start}, {stop}, 2 * {step}"):  # fmt: skip
            yield node, f"{function}({wrong})"


def first_tile_only(place: Place) -> Iterator[Fault]:
    """Only the first program stores."""
    if called(place.node, ("store",)):
        mask = keyword_of(place.node, "mask")  # type: ignore[arg-type]
        first = "(tl.program_id(0) == 0)"
        yield place.node, place.call(mask=first if mask is None else f"{place.of(mask)} & {first}")


def missing_atomic(place: Place) -> Iterator[Fault]:
    """A store where programs have to add to what others stored."""
    if called(place.node, ("atomic_add",)):
        yield place.node, place.call("tl.store", without="sem")


def drop_transpose(place: Place) -> Iterator[Fault]:
    """A matrix that is not transposed."""
    if place.in_kernel and isinstance(place.node, ast.Attribute) and place.node.attr == "T":
        yield place.node, place.of(place.node.value)


MUTATORS: Mapping[str, Mutator] = {
    mutator.__name__: mutator
    for mutator in (
        drop_mask, half_mask, comparison, bound_off_by_one, drop_other, change_other, stride_one, swapped_stride,
        offsets_32_bits, drop_cast, accumulator_dtype, low_precision_sum, drop_term, drop_factor, drop_update,
        keep_last_part, change_constant, drop_bound, drop_choice, other_branch, other_function, wrong_axis,
        wrong_program_axis, loop_bounds, first_tile_only, missing_atomic, drop_transpose, *host_faults.MUTATORS,
    )
}  # fmt: skip

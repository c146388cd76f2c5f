"""The values an exercise is made of: what is called, on what, what is right, and what the work costs.

Facts only. Everything here is frozen, declared once per exercise in `reference/<id>.py`, and imports nothing from the
grader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeVar

import torch
from hypothesis.strategies import SearchStrategy
from torch import Tensor

DTYPES: Mapping[str, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}

# Half the distance between 1 and the next number: the largest relative error of one rounding to nearest.
UNIT_ROUNDOFF: Mapping[str, float] = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}

VALUE_CHECKS = ("aligned", "ragged", "strided", "extreme")
# Every check there is. `gradient` belongs only to exercises that say what is differentiable.
CHECKS = (*VALUE_CHECKS, "gradient", "compiles", "fused", "speed")

LAYOUTS = ("contiguous", "offset", "padded", "sliced", "expanded", "transposed", "transposed_padded", "heads_inside")

Option = bool | int | float
Shape = tuple[int, ...]
Value = TypeVar("Value")
Results = Tensor | tuple[Tensor, ...]
Gradients = tuple[Tensor | None, ...]


@dataclass(frozen=True)
class Geometry:
    """Where the elements of a view lie in its storage. All numbers are in elements.

    `memory_shape` is the shape of the distinct elements: the view's own shape, but 1 along an expanded dimension.
    """

    strides: tuple[int, ...]
    offset: int
    storage_size: int
    memory_shape: tuple[int, ...]


@dataclass(frozen=True)
class TensorSpec:
    """One input tensor of a case: its name, shape, the recipe of its values and its layout in memory."""

    name: str
    shape: tuple[int, ...]
    values: str = "normal"
    layout: str = "contiguous"

    @property
    def numel(self) -> int:
        """Elements of the view."""
        return prod(self.shape)

    def geometry(self) -> Geometry:
        """Strides, offset and storage size of this tensor's layout.

        - offset: contiguous, but starting three elements into its storage, so that its address is not a multiple of 16.
        - padded: a slice `storage[..., :n]` whose rows are seven elements longer in memory.
        - sliced: every second element of the last dimension, starting at the second.
        - expanded: one row (the first dimension) repeated with stride 0.
        - transposed: the last two dimensions swapped in memory; transposed_padded: and with longer rows in memory.
        - heads_inside: the second and third of four dimensions swapped in memory, as a projection leaves its heads.
        """
        shape = self.shape
        if self.layout == "contiguous" or not shape:
            return Geometry(_row_major(shape), 0, max(1, self.numel), shape)
        if self.layout == "offset":
            return Geometry(_row_major(shape), 3, self.numel + 3, shape)
        if self.layout == "padded":
            longer = (*shape[:-1], shape[-1] + 7)
            return Geometry(_row_major(longer), 0, prod(longer), shape)
        if self.layout == "sliced":
            doubled = (*shape[:-1], 2 * shape[-1])
            strides = _row_major(doubled)
            return Geometry((*strides[:-1], 2), 1, prod(doubled), shape)
        if self.layout == "expanded":
            one = (1, *shape[1:])
            return Geometry((0, *_row_major(one)[1:]), 0, prod(one), one)
        if self.layout in ("transposed", "transposed_padded") and len(shape) >= 2:
            extra = 5 if self.layout == "transposed_padded" else 0
            memory = (*shape[:-2], shape[-1], shape[-2] + extra)
            strides = _row_major(memory)
            return Geometry((*strides[:-2], strides[-1], strides[-2]), 0, prod(memory), shape)
        if self.layout == "heads_inside" and len(shape) == 4:
            batch, heads, sequence, last = _row_major((shape[0], shape[2], shape[1], shape[3]))
            return Geometry((batch, sequence, heads, last), 0, self.numel, shape)
        raise ValueError(f"layout {self.layout!r} does not exist for shape {list(shape)}; known: {', '.join(LAYOUTS)}")

    def __str__(self) -> str:
        return f"{self.name}:{'x'.join(map(str, self.shape)) or 'scalar'}:{self.values}:{self.layout}"


@dataclass(frozen=True)
class Case:
    """One call of an exercise: everything needed to make its inputs again. `str(case)` and `Case.parse` are inverse."""

    exercise: str
    check: str
    dtype: str
    tensors: tuple[TensorSpec, ...]
    seed: int = 0
    options: tuple[tuple[str, Option], ...] = ()

    @property
    def numel(self) -> int:
        """Elements of all inputs: the measure by which one counterexample is smaller than another."""
        return sum(spec.numel for spec in self.tensors)

    def __str__(self) -> str:
        parts = [self.exercise, self.check, self.dtype, ",".join(map(str, self.tensors)), str(self.seed)]
        if self.options:
            parts.append(",".join(f"{name}={value!r}" for name, value in self.options))
        return "/".join(parts)

    @classmethod
    def parse(cls, text: str) -> Case:
        """Read what `str(case)` wrote. Raises ValueError with the form that is wanted."""
        parts = text.split("/")
        try:
            exercise, check, dtype, tensors, seed, *rest = parts
            if dtype not in DTYPES or len(rest) > 1:
                raise ValueError
            return cls(exercise, check, dtype, tuple(_parse_tensor(part) for part in tensors.split(",")), int(seed),
                       tuple(_parse_option(part) for part in rest[0].split(",")) if rest else ())  # fmt: skip
        except ValueError:
            raise ValueError(
                f"case {text!r} is not of the form EXERCISE/CHECK/DTYPE/NAME:SHAPE:VALUES:LAYOUT,…/SEED "
                "(copy it from the 'reproduce' line of a failure)"
            ) from None

    def describe(self) -> str:
        """The case in words: `softmax float16[129, 1025], padded, spike values, seed 7`."""
        named = len(self.tensors) > 1
        words = [
            f"{spec.name + ' ' if named else ''}{list(spec.shape)}"
            + ("" if spec.layout == "contiguous" else f" {spec.layout.replace('_', ' ')}")
            + ("" if spec.values == "normal" else f" {spec.values.replace('_', ' ')} values")
            for spec in self.tensors
        ]
        options = [f"{name}={value}" for name, value in self.options]
        return ", ".join([f"{self.exercise} {self.dtype}{'' if named else words.pop(0)}", *words, *options,
                          f"seed {self.seed}"])  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """The least work of a case: bytes through device memory (each input read once, each output written once), FLOPs."""

    bytes_moved: int
    flops: int


@dataclass(frozen=True)
class Mistake:
    """A wrong oracle: an output equal to it shows which mistake was made."""

    says: str
    oracle: Callable[..., Results | Gradients]


@dataclass(frozen=True)
class Output:
    """One result of a call: its name in messages, its shape and its dtype."""

    name: str
    shape: Shape
    dtype: str


@dataclass(frozen=True)
class Gradient:
    """The backward of an exercise: what is differentiable, and what the errors of its gradients are proportional to.

    The right gradients are not stated: they are autograd's, through the oracle in float64. `scale`, `rms_scale`,
    `operand_scale` and the oracles of `mistakes` take what the forward's take, then the upstream gradient of each
    output, and give a tuple: one tensor for each of `inputs`, None for one that the case lacks.
    """

    inputs: tuple[str, ...]
    scale: Callable[..., Gradients]
    reduction_length: Callable[..., int]
    rms_scale: Callable[..., Gradients] | None = None
    operand_scale: Callable[..., Gradients] | None = None
    mistakes: Mapping[str, Mistake] = field(default_factory=dict)


@dataclass(frozen=True)
class Exercise:
    """One exercise, declared in `reference/<id>.py` as `EXERCISE`.

    An entry point is called by position in the order of `arguments`, all names of its signature. Those in `options`
    are numbers and flags, with the value that they have where a case names none; the others are tensors, of which a
    case may lack those in `optional`: they are then None. Oracle, scales and baselines are called in the same way.

    - oracle: the exact result, float64, for inputs in float64; a tuple where there are several.
    - scale: per output element the magnitude that its rounding errors are proportional to (the sum of absolute terms
      of a sum), float64, broadcastable to the output; a tuple where there are several outputs.
    - rms_scale: for exercises with a dot product, the root of the sum of squared products: what the random errors of
      TF32 operands are proportional to.
    - operand_scale: for exercises in which an intermediate result may be rounded to the inputs' dtype to be an operand
      of a product, the sum of absolute terms that this rounding reaches.
    - output_shape: the shape of the result for given input shapes, a tuple of shapes where there are several results.
    - output_names, output_dtypes: names of several results in the order of the tuple, and the dtypes of those that
      have not the inputs' dtype.
    - reduction_length: how many terms are summed for one output element.
    - cases: for a check of values, the strategy of (tensors, options) to draw.
    - edge_cases: for a check of values, the cases that are always judged first, small ones first; for `compiles`, the
      cases whose launches are compiled; for `fused`, cases so small that a good kernel reads each input once.
      Cases of `gradient`, and of `compiles` where the backward is to be compiled, have the upstream gradients behind
      the inputs: `dout` for the output `out`.
    - cost: the least work for given input shapes and element size in bytes.
    - baselines: by name, what a submission's speed is compared with; they take and give tensors of the case's dtype.
      `eager` is the formula in PyTorch operations; the grader adds `compile`, which is torch.compile of it.
    - mistakes: by pitfall name, the wrong oracles.
    - gradient: the backward, where it is asked for.

    `output_shape`, `reduction_length` and `cost` get an exercise's options as keyword arguments.
    """

    id: str
    arguments: tuple[str, ...]
    oracle: Callable[..., Results]
    scale: Callable[..., Results]
    output_shape: Callable[..., Shape | tuple[Shape, ...]]
    reduction_length: Callable[..., int]
    cases: Callable[[str], SearchStrategy[Inputs]]
    edge_cases: Callable[[str], Sequence[Inputs]]
    cost: Callable[..., Cost]
    baselines: Mapping[str, Callable[..., Results]]
    rms_scale: Callable[..., Results] | None = None
    operand_scale: Callable[..., Results] | None = None
    mistakes: Mapping[str, Mistake] = field(default_factory=dict)
    options: Mapping[str, Option] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ("out",)
    output_dtypes: Mapping[str, str] = field(default_factory=dict)
    gradient: Gradient | None = None

    @property
    def checks(self) -> tuple[str, ...]:
        """The checks that there are of this exercise, in order."""
        return CHECKS if self.gradient else tuple(check for check in CHECKS if check != "gradient")

    @property
    def tensors(self) -> tuple[str, ...]:
        """The arguments that are tensors, optional ones included."""
        return tuple(name for name in self.arguments if name not in self.options)

    def bind(self, case: Case, tensors: Sequence[Value]) -> list[Value | Option | None]:
        """What a call gets, by position. `tensors` stand for those of the case, in its order."""
        given = dict(zip((spec.name for spec in case.tensors), tensors, strict=True))
        return [given.get(name, self.options_of(case).get(name)) for name in self.arguments]

    def options_of(self, case: Case) -> dict[str, Option]:
        """Every option by name."""
        return {**self.options, **dict(case.options)}

    def shapes(self, case: Case) -> list[Shape]:
        """The shapes of the inputs that the case has."""
        return [spec.shape for spec in case.tensors if spec.name in self.arguments]

    def outputs(self, case: Case) -> list[Output]:
        """What a call gives back."""
        shape = self.output_shape(self.shapes(case), **self.options_of(case))
        shapes = shape if shape and isinstance(shape[0], tuple) else (shape,)
        return [Output(name, size, self.output_dtypes.get(name, case.dtype))  # type: ignore[arg-type]
                for name, size in zip(self.output_names, shapes, strict=False)]  # fmt: skip

    def upstream(self, case: Case) -> list[str]:
        """The names of the upstream gradients in a case, one an output; none where it asks for no gradient."""
        names = [f"d{output.name}" for output in self.outputs(case)]
        return names if names[0] in {spec.name for spec in case.tensors} else []

    def gradients(self, case: Case) -> list[Output]:
        """What the backward gives for a case with upstream gradients: `dx` like `x`, for each differentiable input."""
        wanted = self.gradient.inputs if self.gradient and self.upstream(case) else ()
        return [Output(f"d{spec.name}", spec.shape, case.dtype) for spec in case.tensors if spec.name in wanted]

    def takes(self, case: Case) -> bool:
        """Whether the tensors and options of a case are this exercise's."""
        names = [spec.name for spec in case.tensors]
        inputs = [name for name in self.tensors if name in names or name not in self.optional]
        if set(dict(case.options)) - set(self.options) or names[: len(inputs)] != inputs:
            return False
        upstream = self.upstream(case)
        return names == [*inputs, *upstream] and bool(upstream or case.check != "gradient" or not self.gradient)


@dataclass(frozen=True)
class Inputs:
    """What a strategy draws: the tensors and options of a case, without dtype and check."""

    tensors: tuple[TensorSpec, ...]
    seed: int = 0
    options: tuple[tuple[str, Option], ...] = ()


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


_TENSOR = re.compile(r"([a-z_]\w*):(scalar|\d+(?:x\d+)*):(\w+):(\w+)")


def _parse_tensor(text: str) -> TensorSpec:
    match = _TENSOR.fullmatch(text)
    if match is None or match[4] not in LAYOUTS:
        raise ValueError(text)
    shape = () if match[2] == "scalar" else tuple(int(size) for size in match[2].split("x"))
    return TensorSpec(match[1], shape, match[3], match[4])


def _parse_option(text: str) -> tuple[str, Option]:
    name, _, value = text.partition("=")
    if value in ("True", "False"):
        return name, value == "True"
    return name, float(value) if "." in value or "e" in value else int(value)

"""The values an exercise is made of: what is called, on what, what is right, and what the work costs.

Facts only. Everything here is frozen, declared once per exercise in `reference/<id>.py`, and imports nothing from the
grader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

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
CHECKS = (*VALUE_CHECKS, "compiles", "fused", "speed")

LAYOUTS = ("contiguous", "offset", "padded", "sliced", "expanded", "transposed", "transposed_padded")

Option = bool | int | float


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
    oracle: Callable[..., Tensor]


@dataclass(frozen=True)
class Exercise:
    """One exercise, declared in `reference/<id>.py` as `EXERCISE`.

    `oracle`, `scale` and `rms_scale` take the input tensors in float64 and the case's options by position.

    - oracle: the exact result, float64.
    - scale: per output element the magnitude that its rounding errors are proportional to (the sum of absolute terms
      of a sum), float64, broadcastable to the output.
    - rms_scale: for exercises with a dot product, the root of the sum of squared products: what the random errors of
      TF32 operands are proportional to.
    - output_shape: the shape of the result for given input shapes.
    - reduction_length: how many terms are summed for one output element.
    - cases: for a check of values, the strategy of (tensors, options) to draw.
    - edge_cases: for a check of values, the cases that are always judged first, small ones first; for `compiles`, the
      cases whose launches are compiled; for `fused`, cases so small that a good kernel reads each input once.
    - cost: the least work for given input shapes and element size in bytes.
    - baselines: by name, what a submission's speed is compared with; they take and give tensors of the case's dtype.
      `eager` is the formula in PyTorch operations; the grader adds `compile`, which is torch.compile of it.
    - mistakes: by pitfall name, the wrong oracles.
    """

    id: str
    arguments: tuple[str, ...]
    oracle: Callable[..., Tensor]
    scale: Callable[..., Tensor]
    output_shape: Callable[[Sequence[tuple[int, ...]]], tuple[int, ...]]
    reduction_length: Callable[[Sequence[tuple[int, ...]]], int]
    cases: Callable[[str], SearchStrategy[Inputs]]
    edge_cases: Callable[[str], Sequence[Inputs]]
    cost: Callable[[Sequence[tuple[int, ...]], int], Cost]
    baselines: Mapping[str, Callable[..., Tensor]]
    rms_scale: Callable[..., Tensor] | None = None
    mistakes: Mapping[str, Mistake] = field(default_factory=dict)
    checks: tuple[str, ...] = CHECKS


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

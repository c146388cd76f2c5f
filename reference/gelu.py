"""GeLU, tanh form: 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))), element by element, for a tensor of any shape.

The erf form differs from it by up to 4.7·10⁻⁴ and is a mistake here (Hendrycks and Gimpel 2016, arXiv 1606.08415).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, prod, sqrt

import torch
from hypothesis import strategies as st
from torch import Tensor

from .exercise import Cost, Exercise, Inputs, Mistake, TensorSpec
from .strategies import STRIDED_LAYOUTS, inputs, layout, seeds, size, values

MOST_ELEMENTS = 20_000
# A kernel may launch one program a row, and the interpreter runs programs one by one.
MOST_ROWS = 200
# A kernel may walk all elements as one vector, so it is their number that blocks must divide.
ALIGNED_SHAPES: tuple[tuple[int, ...], ...] = (
    (1024,), (16, 64), (2048,), (32, 64), (2, 16, 64), (4096,), (64, 128), (4, 32, 64), (16, 1024), (128, 128),
)  # fmt: skip
EXTREME = ("large", "wide", "tiny", "negative", "spike")


def oracle(x: Tensor) -> Tensor:
    """GeLU of x in its tanh form. Shape of x."""
    return 0.5 * x * (1 + torch.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))


def scale(x: Tensor) -> Tensor:
    """|x|: for negative x the result is a difference of two numbers of that size."""
    return x.abs()


def _erf_form(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / sqrt(2)))


def _without_cube(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(sqrt(2 / pi) * x))


@st.composite
def cases(draw: st.DrawFn, check: str) -> Inputs:
    """Vectors, matrices and rank-3 tensors of at most MOST_ELEMENTS elements."""
    if check == "aligned":
        shape = draw(st.sampled_from(ALIGNED_SHAPES))
        return inputs(TensorSpec("x", shape, draw(values(check, EXTREME))), seed=draw(seeds()))
    rank = draw(st.integers(1, 3))
    last = draw(size(check, 6000 if rank == 1 else 1024))
    rows = min(MOST_ROWS, MOST_ELEMENTS // last)
    shape = (last,)
    if rank > 1:
        shape = (draw(size(check, max(16, rows))), last)
    if rank > 2:
        shape = (draw(st.integers(1, max(1, rows // shape[0]))), *shape)
    return inputs(TensorSpec("x", shape, draw(values(check, EXTREME)), draw(layout(check, rank))), seed=draw(seeds()))


def edge_cases(check: str) -> Sequence[Inputs]:
    """Block sizes ± 1 and each layout and recipe once."""
    if check == "compiles":
        return [
            inputs(TensorSpec("x", (4096,))),
            inputs(TensorSpec("x", (7, 37))),
            inputs(TensorSpec("x", (33, 17), "normal", "transposed")),
        ]
    if check == "fused":
        return [inputs(TensorSpec("x", (64, 64)))]
    if check == "aligned":
        return [inputs(TensorSpec("x", shape)) for shape in ((1024,), (64, 64), (4096,), (4, 16, 128))]
    if check == "ragged":
        return [inputs(TensorSpec("x", shape))
                for shape in ((1,), (2,), (1023,), (1025,), (7, 37), (4097,), (3, 5, 7), (1, 1), (2, 3, 1, 5),
                              (300_001,))]  # fmt: skip
    if check == "strided":
        return [*(inputs(TensorSpec("x", (5, 33), "normal", name)) for name in STRIDED_LAYOUTS),
                *(inputs(TensorSpec("x", (2, 3, 37), "normal", name)) for name in ("transposed", "expanded")),
                inputs(TensorSpec("x", (1500,), "normal", "sliced"))]  # fmt: skip
    return [inputs(TensorSpec("x", (1000,), recipe)) for recipe in EXTREME]


def cost(shapes: Sequence[tuple[int, ...]], element_bytes: int) -> Cost:
    """Each element read and written once. FLOPs: 3 for the cube, 3 for the argument, 1 tanh, 3 for the rest."""
    numel = prod(shapes[0])
    return Cost(2 * numel * element_bytes, 10 * numel)


def eager(x: Tensor) -> Tensor:
    """The formula, one PyTorch operation after the other."""
    return 0.5 * x * (1 + torch.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))


def builtin(x: Tensor) -> Tensor:
    """PyTorch's own kernel."""
    return torch.nn.functional.gelu(x, approximate="tanh")


EXERCISE = Exercise(
    id="gelu",
    arguments=("x",),
    oracle=oracle,
    scale=scale,
    output_shape=lambda shapes: shapes[0],
    reduction_length=lambda _: 1,
    cases=cases,
    edge_cases=edge_cases,
    cost=cost,
    baselines={"eager": eager, "builtin": builtin},
    mistakes={
        "erf_form": Mistake("this is the erf form of GeLU; the exercise asks for the tanh form", _erf_form),
        "without_cube": Mistake("the term 0.044715·x³ is missing", _without_cube),
    },
)

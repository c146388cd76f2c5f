"""Matrix product with a ReLU fused behind it: c = max(a @ b, 0), (M, K) @ (K, N) → (M, N), accumulated in float32."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import strategies as st
from torch import Tensor

from .exercise import Cost, Exercise, Inputs, Mistake, TensorSpec
from .strategies import STRIDED_LAYOUTS, inputs, layout, seeds, size, values

MOST_PRODUCTS = 4_000_000
EXTREME = ("wide", "tiny", "negative", "cancelling", "shifted", "spike", "large")


def oracle(a: Tensor, b: Tensor) -> Tensor:
    """max(a @ b, 0)."""
    return (a @ b).clamp_min(0)


def scale(a: Tensor, b: Tensor) -> Tensor:
    """The sum of absolute products."""
    return a.abs() @ b.abs()


def rms_scale(a: Tensor, b: Tensor) -> Tensor:
    """The root of the sum of squared products, and half of it more.

    In 10⁷ elements the errors of a right kernel reach five standard deviations, which are 0.72 of what the root alone
    would allow.
    """
    return 1.5 * (a.square() @ b.square()).sqrt()


def _without_relu(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def _relu_of_inputs(a: Tensor, b: Tensor) -> Tensor:
    return a.clamp_min(0) @ b.clamp_min(0)


@st.composite
def cases(draw: st.DrawFn, check: str) -> Inputs:
    """Three independent sizes up to 300, at most MOST_PRODUCTS products."""
    k = draw(size(check, 512))
    m = draw(size(check, 200))
    n = draw(size(check, max(16, min(200, MOST_PRODUCTS // (m * k)))))
    recipe = draw(values(check, EXTREME))
    return inputs(
        TensorSpec("a", (m, k), recipe, draw(layout(check, 2))),
        TensorSpec("b", (k, n), "normal", draw(layout(check, 2))),
        seed=draw(seeds()),
    )


def _pair(m: int, k: int, n: int, recipe: str = "normal", layouts: tuple[str, str] = ("contiguous",) * 2) -> Inputs:
    return inputs(TensorSpec("a", (m, k), recipe, layouts[0]), TensorSpec("b", (k, n), "normal", layouts[1]))


def edge_cases(check: str) -> Sequence[Inputs]:
    """Each size at a block edge while the others are not, each layout on either side, each recipe once."""
    if check == "compiles":
        return [_pair(128, 256, 128), _pair(65, 70, 37, "normal", ("transposed", "padded"))]
    if check == "fused":
        return [_pair(32, 32, 32)]
    if check == "aligned":
        return [_pair(*sizes) for sizes in ((64, 64, 64), (128, 32, 64), (32, 256, 32), (128, 128, 128))]
    if check == "ragged":
        return [_pair(*sizes) for sizes in ((1, 1, 1), (1, 17, 1), (65, 32, 64), (64, 33, 64), (64, 32, 65),
                                            (37, 70, 13), (129, 1, 127), (3, 500, 5),
                                            (1100, 3, 130))]  # fmt: skip
    if check == "strided":
        pairs = [pair for name in STRIDED_LAYOUTS for pair in ((name, "contiguous"), ("contiguous", name))]
        return [_pair(17, 35, 19, "normal", pair) for pair in pairs]
    return [*(_pair(33, 65, 17, recipe) for recipe in EXTREME), _pair(2, 3001, 2, "cancelling")]


def cost(shapes: Sequence[tuple[int, ...]], element_bytes: int) -> Cost:
    """Each matrix moved once; a multiplication and an addition a product, one comparison a result."""
    (m, k), (_, n) = shapes
    return Cost((m * k + k * n + m * n) * element_bytes, 2 * m * n * k + m * n)


def eager(a: Tensor, b: Tensor) -> Tensor:
    """The library's product, then the ReLU in a second kernel."""
    return torch.relu(a @ b)


EXERCISE = Exercise(
    id="matmul_relu",
    arguments=("a", "b"),
    oracle=oracle,
    scale=scale,
    rms_scale=rms_scale,
    output_shape=lambda shapes: (shapes[0][0], shapes[1][1]),
    reduction_length=lambda shapes: shapes[0][-1],
    cases=cases,
    edge_cases=edge_cases,
    cost=cost,
    baselines={"eager": eager, "builtin": eager},
    mistakes={
        "without_relu": Mistake("this is the product without the ReLU", _without_relu),
        "relu_of_inputs": Mistake("the ReLU was applied to the inputs, not to the product", _relu_of_inputs),
    },
)

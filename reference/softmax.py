"""Softmax over the last dimension of a matrix: y = exp(x − max(x)) / Σ exp(x − max(x)), row by row.

Rows may be longer than any block. −∞ entries give 0. (Milakov and Gimelshein 2018, arXiv 1805.02867, for the online
form.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

import torch
from hypothesis import strategies as st
from torch import Tensor

from .exercise import Cost, Exercise, Inputs, Mistake, TensorSpec
from .strategies import STRIDED_LAYOUTS, inputs, layout, seeds, size, values

MOST_ELEMENTS = 20_000
BLOCKS = (16, 32, 64, 128, 256, 512, 1024)  # of columns, for mistakes that depend on it
EXTREME = ("large", "wide", "negative", "equal", "spike", "some_minus_inf", "tiny", "masked_start", "sunken")


def oracle(x: Tensor) -> Tensor:
    """Softmax of each row. Shape of x."""
    numerator = torch.exp(x - x.amax(-1, keepdim=True))
    return numerator / numerator.sum(-1, keepdim=True)


def scale(x: Tensor) -> Tensor:
    """y·(1 + |x − max|): the exponent's own rounding error is multiplied by its size."""
    distance = (x - x.amax(-1, keepdim=True)).abs()
    return torch.nan_to_num(oracle(x) * (1 + distance), nan=0.0)


def _over_columns(x: Tensor) -> Tensor:
    return torch.softmax(x, 0)


def _zero_padded(x: Tensor) -> Tensor:
    """What a block padded with zeros up to the next power of two gives."""
    padding = (1 << (x.shape[-1] - 1).bit_length()) - x.shape[-1]
    padded = torch.nn.functional.pad(x, (0, padding))
    return torch.softmax(padded, -1)[..., : x.shape[-1]]


def _not_normalised(x: Tensor) -> Tensor:
    return torch.exp(x - x.amax(-1, keepdim=True))


def _base_two(x: Tensor) -> Tensor:
    return torch.softmax(x * log(2), -1)


def _not_rescaled(block: int) -> Callable[[Tensor], Tensor]:
    """What a running sum gives to which each block is added relative to the maximum of its time."""

    def wrong(x: Tensor) -> Tensor:
        ends = (torch.arange(x.shape[-1]) // block * block + block - 1).clamp_max(x.shape[-1] - 1)
        running = x.cummax(-1).values[..., ends]
        return torch.exp(x - x.amax(-1, keepdim=True)) / torch.exp(x - running).sum(-1, keepdim=True)

    return wrong


@st.composite
def cases(draw: st.DrawFn, check: str) -> Inputs:
    """Matrices of at most MOST_ELEMENTS elements, rows up to 6000."""
    columns = draw(size(check, 6000))
    rows = draw(size(check, min(200, max(16, MOST_ELEMENTS // columns))))
    spec = TensorSpec("x", (rows, columns), draw(values(check, EXTREME)), draw(layout(check, 2)))
    return inputs(spec, seed=draw(seeds()))


def edge_cases(check: str) -> Sequence[Inputs]:
    """Rows at block edges, rows longer than a block, each layout and recipe once."""
    if check == "compiles":
        return [
            inputs(TensorSpec("x", (16, 1024))),
            inputs(TensorSpec("x", (3, 1021))),
            inputs(TensorSpec("x", (2, 9001))),
            inputs(TensorSpec("x", (33, 17), "normal", "transposed")),
        ]
    if check == "fused":
        return [inputs(TensorSpec("x", (16, 512)))]
    if check == "aligned":
        return [inputs(TensorSpec("x", shape)) for shape in ((16, 64), (4, 1024), (2, 4096), (128, 128))]
    if check == "ragged":
        # A row longer than any tile early: a second kernel for such rows has most of its faults there. None is longer
        # than 65 536: a kernel that holds a row in one block would be right, and compile for half a minute.
        shapes = ((1, 1), (1, 2), (3, 7), (2, 40_001), (37, 1), (5, 127), (4, 129), (3, 1023), (2, 1025), (1, 20_000))
        return [inputs(TensorSpec("x", shape)) for shape in shapes]
    if check == "strided":
        # The last: more rows than a tile has, tiles that start with −∞, so many terms that 16-bit sums stop growing.
        return [*(inputs(TensorSpec("x", (5, 33), "normal", name)) for name in STRIDED_LAYOUTS),
                inputs(TensorSpec("x", (70, 129), "normal", "transposed")),
                inputs(TensorSpec("x", (5, 301), "some_minus_inf", "transposed")),
                inputs(TensorSpec("x", (2, 20_001), "equal", "transposed"))]  # fmt: skip
    return [*(inputs(TensorSpec("x", (5, 301), recipe)) for recipe in EXTREME),
            inputs(TensorSpec("x", (2, 9001), "spike")),
            inputs(TensorSpec("x", (3, 2100), "masked_start"))]  # fmt: skip


def cost(shapes: Sequence[tuple[int, ...]], element_bytes: int) -> Cost:
    """Each element read and written once. FLOPs: maximum, difference, exponential, sum and quotient."""
    rows, columns = shapes[0]
    return Cost(2 * rows * columns * element_bytes, 5 * rows * columns)


def eager(x: Tensor) -> Tensor:
    """The formula, one PyTorch operation after the other."""
    numerator = torch.exp(x - x.amax(-1, keepdim=True))
    return numerator / numerator.sum(-1, keepdim=True)


def builtin(x: Tensor) -> Tensor:
    """PyTorch's own kernel."""
    return torch.softmax(x, -1)


EXERCISE = Exercise(
    id="softmax",
    arguments=("x",),
    oracle=oracle,
    scale=scale,
    output_shape=lambda shapes: shapes[0],
    reduction_length=lambda shapes: shapes[0][-1],
    cases=cases,
    edge_cases=edge_cases,
    cost=cost,
    baselines={"eager": eager, "builtin": builtin},
    mistakes={
        "wrong_axis": Mistake("this is the softmax over columns, not over rows", _over_columns),
        "wrong_fill": Mistake("padded columns count as 0 instead of −∞: each adds exp(0) to the sum", _zero_padded),
        "not_normalised": Mistake("the numerators are not divided by their sum", _not_normalised),
        "base_two": Mistake("exp2 gets x without the factor log2(e), so these are powers of 2, not of e", _base_two),
        **{
            f"not_rescaled_{block}": Mistake(
                "the running sum is not rescaled when the running maximum grows", _not_rescaled(block)
            )
            for block in BLOCKS
        },
    },
)

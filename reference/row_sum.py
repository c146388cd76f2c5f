"""The sum of each row of a matrix: (M, N) → (M,), accumulated in float32. Rows may be longer than any block."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import strategies as st
from torch import Tensor

from .exercise import Cost, Exercise, Inputs, Mistake, TensorSpec
from .strategies import STRIDED_LAYOUTS, inputs, layout, seeds, size, values

MOST_ELEMENTS = 40_000
EXTREME = ("cancelling", "tiny", "spike", "negative", "wide", "equal")


def oracle(x: Tensor) -> Tensor:
    """The sum over the last dimension."""
    return x.sum(-1)


def scale(x: Tensor) -> Tensor:
    """The sum of absolute values."""
    return x.abs().sum(-1)


def _over_columns(x: Tensor) -> Tensor:
    return x.sum(0)


def _mean(x: Tensor) -> Tensor:
    return x.mean(-1)


def _minus_inf_padded(x: Tensor) -> Tensor:
    """What a block padded with −∞ up to the next power of two gives."""
    padding = (1 << (x.shape[-1] - 1).bit_length()) - x.shape[-1]
    return torch.nn.functional.pad(x, (0, padding), value=-torch.inf).sum(-1)


@st.composite
def cases(draw: st.DrawFn, check: str) -> Inputs:
    """Matrices of at most MOST_ELEMENTS elements, rows up to 12000."""
    columns = draw(size(check, 12_000))
    rows = draw(size(check, min(300, max(16, MOST_ELEMENTS // columns))))
    spec = TensorSpec("x", (rows, columns), draw(values(check, EXTREME)), draw(layout(check, 2)))
    return inputs(spec, seed=draw(seeds()))


def edge_cases(check: str) -> Sequence[Inputs]:
    """Rows at block edges, rows longer than a block, each layout and recipe once."""
    if check == "compiles":
        return [
            inputs(TensorSpec("x", (16, 1024))),
            inputs(TensorSpec("x", (3, 1021))),
            inputs(TensorSpec("x", (33, 17), "normal", "transposed")),
        ]
    if check == "fused":
        return [inputs(TensorSpec("x", (16, 512)))]
    if check == "aligned":
        return [inputs(TensorSpec("x", shape)) for shape in ((16, 64), (4, 1024), (2, 8192), (256, 128))]
    if check == "ragged":
        shapes = ((1, 1), (2, 1), (3, 7), (5, 127), (4, 129), (3, 1023), (2, 1025), (1, 4099), (1, 40_001))
        return [inputs(TensorSpec("x", shape)) for shape in shapes]
    if check == "strided":
        return [*(inputs(TensorSpec("x", (5, 33), "normal", name)) for name in STRIDED_LAYOUTS),
                inputs(TensorSpec("x", (128, 256), "normal", "transposed"))]  # fmt: skip
    return [*(inputs(TensorSpec("x", (5, 301), recipe)) for recipe in EXTREME),
            inputs(TensorSpec("x", (2, 20011), "cancelling"))]  # fmt: skip


def cost(shapes: Sequence[tuple[int, ...]], element_bytes: int) -> Cost:
    """Each element read once and each sum written once; one addition an element."""
    rows, columns = shapes[0]
    return Cost((rows * columns + rows) * element_bytes, rows * columns)


def eager(x: Tensor) -> Tensor:
    """PyTorch's own reduction, which is also the formula."""
    return x.sum(-1)


EXERCISE = Exercise(
    id="row_sum",
    arguments=("x",),
    oracle=oracle,
    scale=scale,
    output_shape=lambda shapes: shapes[0][:1],
    reduction_length=lambda shapes: shapes[0][-1],
    cases=cases,
    edge_cases=edge_cases,
    cost=cost,
    baselines={"eager": eager, "builtin": eager},
    mistakes={
        "wrong_axis": Mistake("these are sums over columns, not over rows", _over_columns),
        "wrong_fill": Mistake("padded columns count as −∞ instead of 0", _minus_inf_padded),
        "mean": Mistake("these are means, not sums", _mean),
    },
)

"""RMSNorm over the last dimension: y = x · s · weight with s = 1 / √(mean(x²) + eps), and its gradients.

The statistics are float32 in every dtype. (Zhang and Sennrich 2019, arXiv:1910.07467.)

With g = dout and the means over the last dimension,
    dx = s · (weight·g − x · s² · mean(x · weight · g)),    dweight = Σ over rows of g · x · s.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from hypothesis import strategies as st
from torch import Tensor

from .exercise import Cost, Exercise, Gradient, Inputs, Mistake, Shape, TensorSpec
from .strategies import STRIDED_LAYOUTS, layout, seeds, size, values

MOST_ELEMENTS = 20_000
EPS = (1e-5, 1e-6, 1e-2)
# `cancelling` has a scale of 300, where a sum of squares in 16 bits overflows; in `tiny` rows eps counts.
EXTREME = ("cancelling", "tiny", "wide", "spike", "large", "equal", "negative")
GRADIENT_VALUES = ("normal", "shifted", "tiny", "cancelling", "spike")


def _s(x: Tensor, eps: float) -> Tensor:
    return torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def oracle(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """X · s · weight. Shape of x."""
    return x * _s(x, eps) * weight


def scale(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """|y|: the sum of squares has no cancellation, so its relative error is that of a sum of positive terms."""
    return oracle(x, weight, eps).abs()


def gradient_scale(x: Tensor, weight: Tensor, eps: float, dout: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients with every term's magnitude.

    dx is a difference: s·|weight·g| and s·|x̂|·mean|x̂·weight·g| with x̂ = x·s bound what its two terms, and the sum in
    the second, can be off by in units of float32's round-off. dweight is a sum over rows of g·x̂.
    """
    s = _s(x, eps)
    normed, weighted = (x * s).abs(), (weight * dout).abs()
    of_x = s * (weighted + normed * (normed * weighted).mean(-1, keepdim=True))
    return of_x, _over_rows(dout.abs() * normed)


def _over_rows(terms: Tensor) -> Tensor:
    return terms.reshape(-1, terms.shape[-1]).sum(0)


def _layer_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return oracle(centred, weight, eps)


def _eps_outside(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True).sqrt() + eps) * weight


def _sum(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps) * weight


def _padded_mean(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """What dividing by the block instead of the row length gives."""
    block = 1 << (x.shape[-1] - 1).bit_length()
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) / block + eps) * weight


def _overflow(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """A sum of squares in float16: infinite beyond its range, so the row becomes 0."""
    beyond = x.square().sum(-1, keepdim=True) > torch.finfo(torch.float16).max
    return torch.where(beyond, 0.0, oracle(x, weight, eps))


def _without_mean(x: Tensor, weight: Tensor, eps: float, dout: Tensor) -> tuple[Tensor, Tensor]:
    s = _s(x, eps)
    return s * weight * dout, _over_rows(dout * x * s)


def _without_weight(x: Tensor, weight: Tensor, eps: float, dout: Tensor) -> tuple[Tensor, Tensor]:
    s = _s(x, eps)
    normed = x * s
    return s * (dout - normed * (normed * dout).mean(-1, keepdim=True)), _over_rows(dout * normed)


def _one_row(x: Tensor, weight: Tensor, eps: float, dout: Tensor) -> tuple[Tensor | None, Tensor]:
    return None, (dout * x * _s(x, eps)).reshape(-1, x.shape[-1])[-1]


def _unscaled(x: Tensor, weight: Tensor, eps: float, dout: Tensor) -> tuple[Tensor | None, Tensor]:
    return None, _over_rows(dout * x)


@st.composite
def _shapes(draw: st.DrawFn, check: str, longest: int) -> Shape:
    """Rows of up to `longest`, under no to three leading dimensions."""
    columns = draw(size(check, longest))
    rows = draw(size(check, min(200, max(16, MOST_ELEMENTS // columns))))
    leading: tuple[int, ...] = draw(
        st.sampled_from([(rows,), (2, rows // 2), (rows // 2, 1, 2)] if rows > 1 else [(1,), ()])
    )
    return (*leading, columns)


@st.composite
def cases(draw: st.DrawFn, check: str) -> Inputs:
    """At most MOST_ELEMENTS elements, rows up to 6000; for `gradient` a fifth of that, and an upstream gradient."""
    backward = check == "gradient"
    shape = draw(_shapes(check, 1200 if backward else 6000))
    recipe = draw(st.sampled_from(GRADIENT_VALUES) if backward else values(check, EXTREME))
    layouts = "strided" if backward else check
    tensors = [
        TensorSpec("x", shape, recipe, draw(layout(layouts, len(shape)))),
        TensorSpec("weight", shape[-1:], "normal", draw(layout(check, 1))),
    ]
    if backward:
        tensors.append(TensorSpec("dout", shape, "normal", draw(layout(layouts, len(shape)))))
    return Inputs(tuple(tensors), draw(seeds()), (("eps", draw(st.sampled_from(EPS))),))


def _case(shape: Shape, recipe: str = "normal", layouts: tuple[str, str] = ("contiguous",) * 2, eps: float = 1e-5,
          upstream: str = "") -> Inputs:  # fmt: skip
    """A case; with `upstream`, the layout of the gradient of its result, one for the backward."""
    tensors = [TensorSpec("x", shape, recipe, layouts[0]), TensorSpec("weight", shape[-1:], "normal", layouts[1])]
    if upstream:
        tensors.append(TensorSpec("dout", shape, "normal", upstream))
    return Inputs(tuple(tensors), 0, (("eps", eps),))


def edge_cases(check: str) -> Sequence[Inputs]:
    """Rows at block edges, rows longer than a block, each layout, recipe and eps once."""
    if check == "compiles":
        return [_case((16, 1024)), _case((33, 17), "normal", ("transposed", "sliced"), upstream="transposed"),
                _case((2, 40_000))]  # fmt: skip
    if check == "fused":
        return [_case((16, 512))]
    if check == "aligned":
        shapes: Sequence[Shape] = ((16, 64), (4, 1024), (2, 2, 4096), (1, 16384), (128, 128))
        return [_case(shape, eps=EPS[number % len(EPS)]) for number, shape in enumerate(shapes)]
    if check == "ragged":
        shapes = (
            (1, 1),
            (7,),
            (3, 2),
            (2, 3, 5),
            (37, 1),
            (5, 127),
            (4, 129),
            (3, 1, 1023),
            (2, 2, 1, 1025),
            (1, 16385),
            (2, 32769),
        )
        return [_case(shape, eps=EPS[number % len(EPS)]) for number, shape in enumerate(shapes)]
    if check == "strided":
        return [
            *(_case((5, 33), "normal", (name, "contiguous"), eps=1e-2) for name in STRIDED_LAYOUTS),
            *(_case((3, 4, 33), "normal", (name, "contiguous")) for name in ("transposed", "padded", "expanded")),
            *(_case((5, 33), "normal", ("contiguous", name)) for name in ("sliced", "expanded")),
        ]
    if check == "gradient":
        return [
            *(_case(shape, upstream="contiguous") for shape in ((1, 1), (3, 64), (5,), (2, 3, 37), (70, 129))),
            _case((6, 33), "normal", ("transposed", "contiguous"), 1e-6, "expanded"),
            _case((6, 33), "normal", ("padded", "sliced"), 1e-6, "transposed"),
            _case((6, 33), "normal", ("expanded", "contiguous"), 1e-6, "padded"),
            *(_case((4, 301), recipe, upstream="contiguous", eps=1e-6) for recipe in GRADIENT_VALUES[2:]),
            _case((3, 4099), upstream="contiguous"),
            _case((2, 16_401), "normal", ("transposed", "sliced"), 1e-6, "padded"),
            # Long rows with every stride larger than 1; so many rows that a program has several of them.
            _case((3, 16_385), "normal", ("sliced", "sliced"), 1e-6, "sliced"),
            _case((400, 1025), upstream="contiguous"),
        ]  # fmt: skip
    return [*(_case((5, 301), recipe) for recipe in EXTREME), *(_case((4, 65), "tiny", eps=eps) for eps in EPS),
            _case((1, 33_001), "cancelling")]  # fmt: skip


def cost(shapes: Sequence[Shape], element_bytes: int, eps: float) -> Cost:
    """X read and y written once, the weight read once. FLOPs: square and sum, two factors."""
    (shape, (columns,)) = shapes
    return Cost((2 * prod(shape) + columns) * element_bytes, 4 * prod(shape))


def eager(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The formula, one PyTorch operation after the other."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


def builtin(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """PyTorch's own kernel."""
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


EXERCISE = Exercise(
    id="rmsnorm",
    arguments=("x", "weight", "eps"),
    options={"eps": 1e-5},
    oracle=oracle,
    scale=scale,
    output_shape=lambda shapes, eps: shapes[0],
    reduction_length=lambda shapes, eps: shapes[0][-1],
    cases=cases,
    edge_cases=edge_cases,
    cost=cost,
    baselines={"eager": eager, "builtin": builtin},
    mistakes={
        "layer_norm": Mistake("the mean is subtracted first, as LayerNorm does", _layer_norm),
        "eps_outside_the_root": Mistake("eps is added to the root, not under it", _eps_outside),
        "without_eps": Mistake(
            "eps is missing, or is not the one that was given", lambda x, weight, eps: oracle(x, weight, 0.0)
        ),
        "sum": Mistake("the squares are added up, not averaged", _sum),
        "padded_mean": Mistake("the sum of squares is divided by the block size, not by the row length", _padded_mean),
        "without_weight": Mistake(
            "the weight is missing", lambda x, weight, eps: oracle(x, torch.ones_like(weight), eps)
        ),
        "weight_twice": Mistake("the weight is applied twice", lambda x, weight, eps: oracle(x, weight**2, eps)),
        "weight_plus_one": Mistake("the factor is 1 + weight", lambda x, weight, eps: oracle(x, 1 + weight, eps)),
        "overflow": Mistake("the sum of squares overflows in 16 bits: convert to float32 before squaring", _overflow),
    },
    gradient=Gradient(
        inputs=("x", "weight"),
        scale=gradient_scale,
        # dx sums over a row, dweight over the rows.
        reduction_length=lambda shapes, eps: max(shapes[0][-1], prod(shapes[0][:-1])),
        mistakes={
            "without_mean": Mistake(
                "s is taken for a constant: its own derivative, the mean, is missing", _without_mean
            ),
            "without_weight": Mistake("the weight is missing in the backward", _without_weight),
            "one_row": Mistake("dweight has the last row only; it is a sum over rows", _one_row),
            "unscaled": Mistake("dweight lacks the factor 1 / √(mean(x²) + eps)", _unscaled),
        },
    ),
)

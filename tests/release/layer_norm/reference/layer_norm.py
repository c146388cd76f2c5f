"""Layer normalisation of the rows of a matrix: y = (x − m) · s · weight + bias with s = 1 / √(v + eps).

m and v are the mean and the variance of a row, v = mean((x − m)²), float32 in every dtype. (Ba, Kiros and Hinton 2016,
arXiv:1607.06450.)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import strategies as st
from torch import Tensor

from .exercise import Cost, Exercise, Inputs, Mistake, Shape, TensorSpec
from .strategies import STRIDED_LAYOUTS, layout, seeds, size, values

MOST_ELEMENTS = 20_000
EPS = (1e-5, 1e-6, 1e-2)
# A mean or variance in 16 bits is wrong in `cancelling`, and in `tiny` rows eps counts.
EXTREME = ("cancelling", "tiny", "wide", "spike", "large", "equal", "negative")


def oracle(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """(x − m) · s · weight + bias. Shape of x."""
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps) * weight + bias


def scale(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """|bias| + s·|weight|·(d + |x − m|·s²·mean(|x − m|·d)) with d = |x| + mean|x|.

    Float32 has x − m off by round-offs of d. That reaches y by itself and through the variance.
    """
    size_of_terms = x.abs() + x.abs().mean(-1, keepdim=True)
    centred = (x - x.mean(-1, keepdim=True)).abs()
    s = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    through_variance = centred * s.square() * (centred * size_of_terms).mean(-1, keepdim=True)
    return bias.abs() + s * weight.abs() * (size_of_terms + through_variance)


def _rms_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight + bias


def _padding_counts(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """What a block filled with zeros up to the next power of two gives, where 0 − m counts in the variance."""
    padding = (1 << (x.shape[-1] - 1).bit_length()) - x.shape[-1]
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    variance = (centred.square().sum(-1, keepdim=True) + padding * mean.square()) / x.shape[-1]
    return centred * torch.rsqrt(variance + eps) * weight + bias


def _unbiased(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().sum(-1, keepdim=True) / (x.shape[-1] - 1)
    return centred * torch.rsqrt(variance + eps) * weight + bias


def _eps_outside(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True).sqrt() + eps) * weight + bias


@st.composite
def cases(draw: st.DrawFn, check: str) -> Inputs:
    """Matrices of at most MOST_ELEMENTS elements, rows up to 6000."""
    columns = draw(size(check, 6000))
    rows = draw(size(check, min(200, max(16, MOST_ELEMENTS // columns))))
    x = TensorSpec("x", (rows, columns), draw(values(check, EXTREME)), draw(layout(check, 2)))
    weight = TensorSpec("weight", (columns,), "normal", draw(layout(check, 1)))
    bias = TensorSpec("bias", (columns,), "normal", draw(layout(check, 1)))
    return Inputs((x, weight, bias), draw(seeds()), (("eps", draw(st.sampled_from(EPS))),))


def _case(shape: Shape, recipe: str = "normal", eps: float = 1e-5, x: str = "contiguous", weight: str = "contiguous",
          bias: str = "contiguous") -> Inputs:  # fmt: skip
    """A case; `x`, `weight` and `bias` are layouts."""
    tensors = (TensorSpec("x", shape, recipe, x), TensorSpec("weight", shape[-1:], "normal", weight),
               TensorSpec("bias", shape[-1:], "normal", bias))  # fmt: skip
    return Inputs(tensors, 0, (("eps", eps),))


def edge_cases(check: str) -> Sequence[Inputs]:
    """Rows at block edges, each layout, recipe and eps once."""
    if check == "compiles":
        return [_case((16, 1024)), _case((3, 1021)), _case((33, 17), x="transposed", weight="sliced", bias="sliced")]
    if check == "fused":
        return [_case((16, 512))]
    if check == "aligned":
        return [_case(shape, eps=EPS[number % 3]) for number, shape in enumerate(((16, 64), (4, 1024), (128, 128)))]
    if check == "ragged":
        shapes = ((1, 1), (3, 2), (3, 7), (37, 1), (5, 127), (4, 129), (3, 1023), (2, 1025), (1, 16383))
        return [_case(shape, eps=EPS[number % 3]) for number, shape in enumerate(shapes)]
    if check == "strided":
        return [*(_case((5, 33), x=name) for name in STRIDED_LAYOUTS),
                *(_case((5, 33), weight=name) for name in ("sliced", "expanded")),
                *(_case((5, 33), bias=name) for name in ("sliced", "expanded"))]  # fmt: skip
    return [*(_case((5, 301), recipe) for recipe in EXTREME), *(_case((4, 65), "tiny", eps) for eps in EPS),
            _case((1, 16_001), "cancelling")]  # fmt: skip


def cost(shapes: Sequence[Shape], element_bytes: int, eps: float) -> Cost:
    """X read and y written once, weight and bias read once. FLOPs: two sums, a square, two differences, two factors."""
    rows, columns = shapes[0]
    return Cost((2 * rows * columns + 2 * columns) * element_bytes, 7 * rows * columns)


def eager(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """The formula, one PyTorch operation after the other."""
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    return (centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + eps) * weight + bias).to(x.dtype)


def builtin(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """PyTorch's own kernel."""
    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, eps)


EXERCISE = Exercise(
    id="layer_norm",
    arguments=("x", "weight", "bias", "eps"),
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
        "rms_norm": Mistake("the mean is not subtracted, as in RMSNorm", _rms_norm),
        "padding_counts": Mistake("masked columns count in the variance: 0 − mean is not 0", _padding_counts),
        "unbiased": Mistake("the squares are divided by N − 1, not by N", _unbiased),
        "eps_outside_the_root": Mistake("eps is added to the root, not under it", _eps_outside),
        "without_weight": Mistake(
            "the weight is missing", lambda x, weight, bias, eps: oracle(x, torch.ones_like(weight), bias, eps)
        ),
        "without_bias": Mistake(
            "the bias is missing", lambda x, weight, bias, eps: oracle(x, weight, torch.zeros_like(bias), eps)
        ),
    },
)

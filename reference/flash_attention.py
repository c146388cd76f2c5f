"""Exact attention: o = P·v with P the softmax of S = q·kᵀ/√dim + bias by rows, in memory linear in the length.

q is (batch, heads, seq_q, dim), k and v are (batch, heads, seq_k, dim); bias is (batch or 1, heads or 1, seq_q, seq_k).
Under `causal` query i sees the keys j ≤ i + seq_k − seq_q: the last query sees the last key. A query that sees no key
has o = 0. On request the second result is lse[i] = ln Σⱼ exp(S[i, j]), float32, −∞ where no key is seen.
(Dao 2023, arXiv:2307.08691.)

**Gradients**, with D[i] = Σ dout[i]·o[i] − dlse[i]:
    dv = Pᵀ·dout,  dS = P ∘ (dout·vᵀ − D),  dq = dS·k/√dim,  dk = dSᵀ·q/√dim,  dbias = dS summed where bias broadcasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from hypothesis import strategies as st
from torch import Tensor

from .attention import errors
from .attention.formula import attend, by_heads, hide, scores_of
from .attention.mistakes import GRADIENT_MISTAKES, MISTAKES
from .exercise import Cost, Exercise, Gradient, Inputs, Results, Shape, TensorSpec
from .strategies import STRIDED_LAYOUTS, aligned_size, ragged_size, seeds

MOST_PRODUCTS = 600_000
DIMS = (16, 32, 64, 128)
RAGGED_DIMS = (16, 24, 33, 40, 64, 72, 96, 160, 256)

PLAIN = ("contiguous",) * 4
LAYOUTS = ("heads_inside", *STRIDED_LAYOUTS)
# What each extreme case has in q, k, v and bias, and whether it is causal.
EXTREME = (
    ("negative", "negative", "normal", "", False),  # scores around 100: exp overflows
    ("negative", "shifted", "normal", "", True),  # scores far below 0: exp of every one of them is 0
    ("normal", "spike", "shifted", "", False),  # the maximum moves from block to block
    ("tiny", "normal", "shifted", "", False),  # all keys weigh the same: a padded one shows
    ("normal", "normal", "large", "", True),
    ("normal", "normal", "equal", "some_minus_inf", False),
    ("normal", "normal", "normal", "masked_start", False),
    ("normal", "normal", "shifted", "masked_rows", False),  # queries that see no key
    ("normal", "normal", "normal", "wide", True),
)


def _case(batch: int, heads: int, seq_q: int, seq_k: int, dim: int, *, causal: bool = False, lse: bool = False,
          bias: tuple[int, int] | None = None, recipes: Sequence[str] = ("normal",) * 4,
          layouts: tuple[str, ...] = PLAIN, upstream: str = "", gradients: str = "normal",
          seed: int = 0) -> Inputs:  # fmt: skip
    """A case; `bias` is its batch and heads, `upstream` the layout of the gradients, one for the backward."""
    shapes: dict[str, Shape] = {
        name: (batch, heads, seq, dim) for name, seq in (("q", seq_q), ("k", seq_k), ("v", seq_k))
    }
    if bias is not None:
        shapes["bias"] = (*bias, seq_q, seq_k)
    tensors = [TensorSpec(*each) for each in zip(shapes, shapes.values(), recipes, layouts, strict=False)]
    if upstream:
        tensors.append(TensorSpec("dout", shapes["q"], gradients, upstream))
        if lse:  # which has no last dimension for the heads to lie inside of
            layout = upstream.replace("heads_inside", "transposed")
            tensors.append(TensorSpec("dlse", shapes["q"][:3], gradients, layout))
    options = (("causal", causal), *((("return_lse", True),) if lse else ()))
    return Inputs(tuple(tensors), seed, options)


@st.composite
def cases(draw: st.DrawFn, check: str) -> Inputs:
    """At most MOST_PRODUCTS products in each of the two matrix products; equal lengths and no bias for `aligned`."""
    aligned = check == "aligned"
    length = aligned_size(128) if aligned else ragged_size(150)
    seq_q = draw(length)
    seq_k = seq_q if aligned or draw(st.booleans()) else draw(length)
    dim = draw(
        st.sampled_from(
            [dim for dim in (DIMS if aligned else RAGGED_DIMS) if dim * seq_q * seq_k <= MOST_PRODUCTS] or [16]
        )
    )
    pairs = max(1, min(6, MOST_PRODUCTS // (dim * seq_q * seq_k)))
    batch = draw(st.integers(1, min(2, pairs)))
    heads = draw(st.integers(1, pairs // batch))
    causal, backward = draw(st.booleans()), check == "gradient"
    bias = None if aligned else draw(st.sampled_from([None, (1, 1), (batch, 1), (1, heads), (batch, heads)]))
    recipes: tuple[str, ...] = ("normal", "normal", draw(st.sampled_from(("normal", "shifted"))), "normal")
    if check == "extreme":
        *recipes_, causal = draw(st.sampled_from(EXTREME))
        recipes = (*recipes_[:3], recipes_[3] or "normal")
        bias = (bias or (1, 1)) if recipes_[3] else None
    picked = st.sampled_from(LAYOUTS) if check == "strided" or backward else st.just("contiguous")
    layouts = (draw(picked), draw(picked), draw(picked), draw(picked))
    lse = check not in ("aligned", "strided") and draw(st.booleans())
    return _case(batch, heads, seq_q, seq_k, dim, causal=causal, lse=lse, bias=bias, recipes=recipes, layouts=layouts,
                 upstream=draw(picked) if backward else "", seed=draw(seeds()))  # fmt: skip


def edge_cases(check: str) -> Sequence[Inputs]:
    """Lengths at block edges, unequal lengths either way round, each layout of each tensor, each kind of extreme."""
    if check == "compiles":  # kernels of this size take a second or two each: two cases with everything in them
        return [
            _case(1, 2, 120, 128, 64, causal=True, bias=(1, 2), upstream="contiguous"),
            _case(1, 1, 17, 21, 256, causal=True, bias=(1, 1), upstream="contiguous"),  # tiles that fit no more
        ]
    if check == "fused":
        return [_case(1, 1, 256, 256, 16)]
    if check == "aligned":
        return [_case(1, 1, 16, 16, 16), _case(1, 2, 64, 64, 32), _case(2, 2, 64, 64, 16, causal=True),
                _case(1, 1, 128, 128, 64, causal=True), _case(1, 1, 32, 32, 128)]  # fmt: skip
    if check == "ragged":
        return [
            _case(1, 1, 1, 1, 16), _case(1, 1, 1, 37, 16, causal=True), _case(1, 1, 33, 33, 16, causal=True, lse=True),
            _case(2, 3, 17, 31, 16, bias=(1, 1)), _case(2, 2, 63, 65, 24, causal=True),
            _case(1, 1, 65, 63, 16, causal=True), _case(2, 2, 20, 33, 40, bias=(2, 2), lse=True),
            _case(2, 1, 19, 18, 33, bias=(1, 1), causal=True),
            _case(1, 2, 5, 127, 96, bias=(1, 2)), _case(1, 1, 7, 300, 256, lse=True),
            _case(2, 2, 17, 20, 16, bias=(2, 1)),
            # Several blocks either way under `causal`, with a diagonal that starts anywhere.
            _case(1, 1, 140, 200, 16, causal=True), _case(1, 1, 200, 140, 16, causal=True),
        ]  # fmt: skip
    if check == "strided":
        return [
            _case(2, 2, 19, 17, 16, causal=True, layouts=("heads_inside",) * 4),
            *(_case(2, 1, 17, 19, 24, layouts=(name, *PLAIN[1:])) for name in LAYOUTS[1:]),
            *(_case(2, 1, 17, 19, 24, layouts=("contiguous", name, other, "contiguous"))
              for name, other in zip(LAYOUTS, LAYOUTS[1:] + LAYOUTS[:1], strict=True)),
            *(_case(2, 2, 9, 20, 16, bias=(2, 2), layouts=("contiguous",) * 3 + (name,))
              for name in ("transposed", "expanded", "heads_inside")),
        ]  # fmt: skip
    if check == "gradient":
        return [
            _case(1, 1, 16, 16, 16, upstream="contiguous"), _case(1, 2, 32, 32, 32, causal=True, upstream="contiguous"),
            _case(1, 1, 37, 21, 16, causal=True, upstream="contiguous"),
            _case(2, 2, 13, 33, 24, upstream="expanded", layouts=("heads_inside",) * 4),
            _case(2, 2, 17, 20, 16, bias=(2, 2), upstream="heads_inside"),
            _case(2, 2, 20, 17, 16, bias=(1, 1), causal=True, upstream="contiguous"),
            _case(1, 1, 65, 70, 40, lse=True, upstream="transposed"),
            _case(2, 2, 19, 9, 16, causal=True, lse=True, upstream="transposed"),
            _case(1, 1, 17, 21, 256, causal=True, bias=(1, 1), upstream="contiguous"),
            # Several blocks of keys and of queries under `causal`, with a diagonal that starts anywhere.
            _case(1, 1, 200, 140, 16, causal=True, upstream="contiguous"),
            _case(1, 1, 140, 200, 16, causal=True, upstream="contiguous"),
            _case(1, 1, 9, 200, 16, causal=True, upstream="contiguous"),
            # So many blocks of one sign that a dq, or a dk and dv, kept in 16 bits is off.
            _case(1, 1, 3, 8001, 16, lse=True, recipes=("normal", "shifted", "tiny"), upstream="contiguous",
                  gradients="shifted"),
            _case(1, 1, 8001, 3, 16, lse=True, recipes=("shifted", "normal", "tiny"), upstream="contiguous",
                  gradients="shifted"),
        ]  # fmt: skip
    return [
        *(_case(1, 2, 21, 37, 32, causal=causal, bias=(1, 1) if bias else None, lse=True,
                recipes=(q, k, v, bias or "normal")) for q, k, v, bias, causal in EXTREME),
        _case(1, 1, 70, 20, 16, causal=True, lse=True),
        # So many blocks of keys that an output kept in 16 bits is off.
        _case(1, 1, 16, 4001, 16, recipes=("shifted", "normal", "shifted")),
    ]  # fmt: skip


def output_shape(shapes: Sequence[Shape], causal: bool, return_lse: bool) -> Shape | tuple[Shape, ...]:
    """The shape of o is q's; lse has not its last dimension."""
    return (shapes[0], shapes[0][:3]) if return_lse else shapes[0]


def cost(shapes: Sequence[Shape], element_bytes: int, causal: bool, return_lse: bool) -> Cost:
    """Each input read and each result written once; two products of 2·dim operations for each key that a query sees."""
    (batch, heads, seq_q, dim), (_, _, seq_k, _), *_ = shapes
    seen = sum(min(seq_k, max(0, i + seq_k - seq_q + 1)) for i in range(seq_q)) if causal else seq_q * seq_k
    elements = sum(map(prod, shapes)) + prod(shapes[0])
    lse_bytes = 4 * batch * heads * seq_q if return_lse else 0
    return Cost(elements * element_bytes + lse_bytes, 4 * batch * heads * seen * dim)


def eager(q: Tensor, k: Tensor, v: Tensor, causal: bool, bias: Tensor | None, return_lse: bool) -> Results:
    """The formula with the whole score matrix, one PyTorch operation after the other."""
    s = scores_of(q, k, causal, bias)
    out = torch.softmax(s, -1) @ v
    return (out, torch.logsumexp(s.float(), -1)) if return_lse else out


def builtin(q: Tensor, k: Tensor, v: Tensor, causal: bool, bias: Tensor | None, return_lse: bool) -> Results:
    """PyTorch's scaled_dot_product_attention, which gives no lse. Its own causal mask is aligned to the first key."""
    if return_lse:
        return eager(q, k, v, causal, bias, return_lse)
    if causal and (bias is not None or q.shape[2] != k.shape[2]):
        zeros = q.new_zeros(q.shape[2], k.shape[2]) if bias is None else bias
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, hide(zeros, k.shape[2] - q.shape[2]))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, bias, is_causal=causal)


EXERCISE = Exercise(
    id="flash_attention",
    arguments=("q", "k", "v", "causal", "bias", "return_lse"),
    options={"causal": False, "return_lse": False},
    optional=("bias",),
    oracle=by_heads(attend),
    scale=errors.scale_of(errors.float32),
    rms_scale=errors.scale_of(errors.tf32),
    operand_scale=errors.scale_of(errors.rounded),
    output_shape=output_shape,
    output_names=("out", "lse"),
    output_dtypes={"lse": "float32"},
    reduction_length=lambda shapes, **_: max(shapes[0][3], shapes[1][2]),
    cases=cases,
    edge_cases=edge_cases,
    cost=cost,
    baselines={"eager": eager, "builtin": builtin},
    mistakes=MISTAKES,
    gradient=Gradient(
        inputs=("q", "k", "v", "bias"),
        scale=errors.gradient_scale_of(errors.float32, errors.product_float32),
        rms_scale=errors.gradient_scale_of(errors.tf32, errors.product_tf32),
        operand_scale=errors.gradient_scale_of(errors.rounded_shares, lambda dout, v: 0.0),
        reduction_length=lambda shapes, **_: prod(shapes[0][:2]) * max(shapes[0][2:] + shapes[1][2:]),
        mistakes=GRADIENT_MISTAKES,
    ),
)  # fmt: skip

"""What the errors of attention and its gradients are proportional to.

Where each weight P is off by a share ε of itself, P·v moves by Σⱼ P·ε·|v[j]|, and its normalisation by
Σⱼ P·ε·|o|. What ε is proportional to depends on where an error comes from:
- float32 (`scale`): a score is a sum of products and a bias, off by round-offs of A = Σ|q·k|/√dim + |bias|; the
  exponential multiplies the rounding of its argument by |S − max S|. So ε = 1 + A + |S − max S|.
- TF32 (`rms_scale`; only in float32): the factors of a product have 10 bits. Truncation shrinks a product by up to 2⁻⁹
  of itself, what is random adds up as a root of squares: a score is off by 2⁻⁹·(|q·k| + ρ)/√dim at most, with ρ the
  root of the sum of squared products, and the exponential makes a factor of it. P and v are rounded for their product.
- operands (`operand_scale`; only in 16 bits): P is rounded to the inputs' dtype to be multiplied with v, so ε = 1.
  float16 rounds numbers below 2⁻¹⁴ absolutely; the largest weight is 1 before it is normalised, as in the forward.
In the backward the same errors of P meet dout·vᵀ − D; D sums over o as rounded to its dtype; dS is rounded like P.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor

from ..exercise import Gradients, Results
from .formula import Scores, by_heads, scores_of, slices, softmax

TF32_ROUNDOFF = 2.0**-9
FLOAT16_SUBNORMAL = 2.0**-14

Errors = Callable[[Scores, Tensor, Tensor, Tensor | None], Tensor]


def float32(scores: Scores, q: Tensor, k: Tensor, bias: Tensor | None) -> Tensor:
    """P·ε of float32 arithmetic."""
    terms = q.abs() @ k.abs().mT / sqrt(q.shape[-1]) + (0.0 if bias is None else bias.abs())
    return torch.where(scores.p > 0, scores.p * (1 + terms + (scores.s - scores.highest).abs()), 0.0)


def tf32(scores: Scores, q: Tensor, k: Tensor, bias: Tensor | None) -> Tensor:
    """P·ε of TF32 operands."""
    off = ((q @ k.mT).abs() + (q.square() @ k.square().mT).sqrt()) / sqrt(q.shape[-1])
    return scores.p * (1 + torch.expm1(TF32_ROUNDOFF * off) / TF32_ROUNDOFF)


def rounded(scores: Scores, q: Tensor, k: Tensor, bias: Tensor | None) -> Tensor:
    """P·ε of weights in 16 bits."""
    return scores.p + FLOAT16_SUBNORMAL * scores.p.amax(-1, keepdim=True)


def rounded_shares(scores: Scores, q: Tensor, k: Tensor, bias: Tensor | None) -> Tensor:
    """P·ε of weights in 16 bits that were normalised before, as those of the backward are."""
    return torch.where(scores.p > 0, scores.p + FLOAT16_SUBNORMAL, 0.0)


def scale_of(errors: Errors) -> Callable[..., Results]:
    """Σ P·ε·(|v| + |o|) for o, Σ P·ε for lse."""

    def of_heads(q: Tensor, k: Tensor, v: Tensor, causal: bool, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = softmax(scores_of(q, k, causal, bias))
        off = errors(scores, q, k, bias)
        of_lse = off.sum(-1, keepdim=True)
        return off @ v.abs() + of_lse * (scores.p @ v).abs(), of_lse.squeeze(-1)

    return by_heads(of_heads)


def gradient_scale_of(
    errors: Errors, of_product: Callable[[Tensor, Tensor], Tensor | float]
) -> Callable[..., Gradients]:
    """What the errors of the gradients are proportional to, for one kind of error.

    With R = dout·vᵀ, which `of_product(dout, v)` bounds the error of, D is off by
    Σⱼ (P·ε·(|R| + |D|) + P·of_product) + Σ|dout·o|, and dS by P·ε·|R − D| + P·(of_product + D's error) + |dS|. The sums
    for dq, dk, dv and dbias take over what their terms are off by.
    """

    def whole(q: Tensor, k: Tensor, v: Tensor, causal: bool, bias: Tensor | None, return_lse: bool, dout: Tensor,
              dlse: Tensor | None = None) -> Gradients:  # fmt: skip
        parts = []
        for q_, k_, v_, bias_, dout_, dlse_ in slices(q, k, v, bias, dout, dlse):
            scores = softmax(scores_of(q_, k_, causal, bias_))
            p, off = scores.p, errors(scores, q_, k_, bias_)
            product, terms = dout_ @ v_.mT, dout_ * (p @ v_)
            d = terms.sum(-1, keepdim=True) - (0.0 if dlse_ is None else dlse_.unsqueeze(-1))
            of_product_ = of_product(dout_, v_)
            of_d = (off * (product.abs() + d.abs()) + p * of_product_).sum(-1, keepdim=True)
            of_d = of_d + terms.abs().sum(-1, keepdim=True)
            of_s = (off + p) * (product - d).abs() + p * (of_product_ + of_d)
            scaled = of_s / sqrt(q.shape[-1])
            parts.append((scaled @ k_.abs(), scaled.mT @ q_.abs(), off.mT @ dout_.abs(), of_s))
        of_q, of_k, of_v, of_s = (
            torch.cat(part).view(*q.shape[:2], *part[0].shape[1:]) for part in zip(*parts, strict=True)
        )
        return of_q, of_k, of_v, None if bias is None else of_s.sum_to_size(bias.shape)

    return whole


def product_float32(dout: Tensor, v: Tensor) -> Tensor:
    """Of dout·vᵀ in float32: the sum of absolute products."""
    return dout.abs() @ v.abs().mT


def product_tf32(dout: Tensor, v: Tensor) -> Tensor:
    """Of dout·vᵀ with TF32 operands: as for a score."""
    return (dout @ v.mT).abs() + (dout.square() @ v.square().mT).sqrt()

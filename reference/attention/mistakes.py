"""Attention and its gradients as they come out with a known mistake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt

import torch
from torch import Tensor

from ..exercise import Gradients, Mistake, Results
from .formula import attend, by_heads, hide, scores_of, softmax

BLOCKS = (16, 32, 64, 128)


def with_scores(change: Callable[..., Tensor]) -> Callable[..., Results]:
    """Attention with other scores: `change(s, q, k, causal, bias)` of the right ones."""

    def of_heads(q: Tensor, k: Tensor, v: Tensor, causal: bool, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = softmax(change(scores_of(q, k, causal, bias), q, k, causal, bias))
        return scores.p @ v, scores.lse

    return by_heads(of_heads)


def masked_by(shift: Callable[[int, int], int]) -> Callable[..., Results]:
    """Attention under another diagonal: `shift(seq_q, seq_k)`."""
    return with_scores(
        lambda s, q, k, causal, bias: (
            hide(scores_of(q, k, False, bias), shift(q.shape[-2], k.shape[-2])) if causal else s
        )
    )


def bias_before_scale(s: Tensor, q: Tensor, k: Tensor, causal: bool, bias: Tensor | None) -> Tensor:
    """Scores (q·kᵀ + bias)/√dim."""
    return s if bias is None else scores_of(q, k, causal, bias / sqrt(q.shape[-1]))


def padded(block: int) -> Callable[..., Results]:
    """Keys beyond the last count with a score of 0 and a value of 0."""

    def of_heads(q: Tensor, k: Tensor, v: Tensor, causal: bool, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        s = torch.nn.functional.pad(scores_of(q, k, causal, bias), (0, -k.shape[-2] % block))
        scores = softmax(s)
        return scores.p[..., : k.shape[-2]] @ v, scores.lse

    return by_heads(of_heads)


def not_rescaled(block: int) -> Callable[..., Results]:
    """Each block of keys keeps the maximum of its time."""

    def of_heads(q: Tensor, k: Tensor, v: Tensor, causal: bool, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = softmax(scores_of(q, k, causal, bias))
        running = scores.s.cummax(-1).values
        ends = (torch.arange(k.shape[-2], device=q.device) // block * block + block - 1).clamp_max(k.shape[-2] - 1)
        running = torch.where(running.isfinite(), running, 0.0)[..., ends]
        return torch.exp(scores.s - running) / scores.total @ v, scores.lse

    return by_heads(of_heads)


def mean_where_masked(q: Tensor, k: Tensor, v: Tensor, causal: bool, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """What a large negative number in place of −∞ gives where it is the only score."""
    scores = softmax(scores_of(q, k, causal, bias))
    seen = scores.s.isfinite().any(-1, keepdim=True)
    return torch.where(seen, scores.p @ v, v.mean(-2, keepdim=True)), scores.lse


def base_two(q: Tensor, k: Tensor, v: Tensor, causal: bool, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """The logarithm that comes out where exponentials are powers of two."""
    out, lse = attend(q, k, v, causal, bias)
    return out, lse / torch.log(torch.tensor(2.0, dtype=torch.float64))


def backward(*, scaled: bool = True, with_d: bool = True, with_dlse: bool = True) -> Callable[..., Gradients]:
    """The formulas of the gradients, with something left out."""

    def whole(q: Tensor, k: Tensor, v: Tensor, causal: bool, bias: Tensor | None, return_lse: bool, dout: Tensor,
              dlse: Tensor | None = None) -> Gradients:  # fmt: skip
        p = softmax(scores_of(q, k, causal, bias)).p
        d = (dout * (p @ v)).sum(-1, keepdim=True) if with_d else torch.zeros_like(dout[..., :1])
        if dlse is not None and with_dlse:
            d = d - dlse.unsqueeze(-1)
        ds = p * (dout @ v.mT - d)
        factor = 1 / sqrt(q.shape[-1]) if scaled else 1.0
        return ds @ k * factor, ds.mT @ q * factor, p.mT @ dout, None if bias is None else ds.sum_to_size(bias.shape)

    return whole


MISTAKES: Mapping[str, Mistake] = {
    "no_scale": Mistake("the scores are not divided by √dim",
                        with_scores(lambda s, q, k, causal, bias: scores_of(q * sqrt(q.shape[-1]), k, causal, bias))),
    "causal_strict": Mistake("a query does not see the key on the causal diagonal: mask j > i, not j ≥ i",
                             masked_by(lambda seq_q, seq_k: seq_k - seq_q - 1)),
    "causal_one_more": Mistake("a query sees one key beyond the causal diagonal",
                               masked_by(lambda seq_q, seq_k: seq_k - seq_q + 1)),
    "causal_top_left": Mistake("the causal diagonal starts at the first key; the last query has to see the last key: "
                               "j ≤ i + seq_k − seq_q", masked_by(lambda seq_q, seq_k: 0)),
    "not_causal": Mistake("the causal mask is missing", masked_by(lambda seq_q, seq_k: seq_k)),
    "no_bias": Mistake("the bias is missing", with_scores(lambda s, q, k, causal, bias: scores_of(q, k, causal, None))),
    "bias_before_scale": Mistake("the bias is divided by √dim, too", with_scores(bias_before_scale)),
    "wrong_axis": Mistake("the softmax goes over queries, not over keys", by_heads(
        lambda q, k, v, causal, bias: (torch.softmax(scores_of(q, k, causal, bias), -2) @ v, q[..., 0]))),
    "masked_mean": Mistake("a query that sees no key gives the mean of all values, not 0", by_heads(mean_where_masked)),
    "base_two": Mistake("lse is the logarithm to base 2, not the natural one", by_heads(base_two)),
    **{f"wrong_fill_{block}": Mistake("keys beyond the last count with a score of 0: mask them with −∞", padded(block))
       for block in BLOCKS},
    **{f"not_rescaled_{block}": Mistake("o is not rescaled when the running maximum grows", not_rescaled(block))
       for block in BLOCKS},
}  # fmt: skip

GRADIENT_MISTAKES: Mapping[str, Mistake] = {
    "no_scale": Mistake("dq and dk lack the factor 1/√dim", backward(scaled=False)),
    "no_d": Mistake("dS lacks the term −P·D, with D = Σ dout·o of each query", backward(with_d=False)),
    "no_dlse": Mistake("the gradient of lse is not taken into account", backward(with_dlse=False)),
}

"""Attention in float64, head by head where the score matrix is large."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod, sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..exercise import Results

MOST_SCORES = 2**27  # of one slice: a gigabyte in float64


class Scores(NamedTuple):
    """S of some heads, (heads, seq_q, seq_k), with what its softmax needs: finite where a query sees no key, too."""

    s: Tensor
    highest: Tensor
    total: Tensor
    p: Tensor

    @property
    def lse(self) -> Tensor:
        """The logarithm of each query's sum of exponentials, −∞ where it sees no key."""
        seen = self.s.isfinite().any(-1)
        return torch.where(seen, (self.highest + torch.log(self.total)).squeeze(-1), -torch.inf)


def softmax(s: Tensor) -> Scores:
    """The weights of scores (heads, seq_q, seq_k), all 0 for a query that sees no key."""
    highest = s.detach().amax(-1, keepdim=True)
    highest = torch.where(highest.isfinite(), highest, 0.0)
    numerator = torch.exp(s - highest)
    total = numerator.sum(-1, keepdim=True)
    total = torch.where(total == 0, 1.0, total)
    return Scores(s, highest, total, numerator / total)


def hide(s: Tensor, shift: int) -> Tensor:
    """Scores with −∞ for keys j > i + shift."""
    return s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1 + shift), -torch.inf)


def scores_of(q: Tensor, k: Tensor, causal: bool, bias: Tensor | None) -> Tensor:
    """S, with −∞ where a query must not see a key."""
    s = q @ k.mT / sqrt(q.shape[-1])
    s = s if bias is None else s + bias
    return hide(s, k.shape[-2] - q.shape[-2]) if causal else s


def slices(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, *more: Tensor | None) -> Iterator[Sequence[Any]]:
    """The tensors with batch and heads as one dimension, in pieces whose scores fit the memory."""
    if bias is not None:
        bias = bias.expand(*q.shape[:3], k.shape[2])
    flat = [None if x is None else x.flatten(0, 1) for x in (q, k, v, bias, *more)]
    step = max(1, MOST_SCORES // (q.shape[2] * k.shape[2]))
    for start in range(0, prod(q.shape[:2]), step):
        yield [None if x is None else x[start : start + step] for x in flat]


def by_heads(of_heads: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., Results]:
    """The function of whole tensors for one of some heads: o, and lse on request."""

    def whole(q: Tensor, k: Tensor, v: Tensor, causal: bool, bias: Tensor | None, return_lse: bool) -> Results:
        parts = [of_heads(*heads[:3], causal, heads[3]) for heads in slices(q, k, v, bias)]
        out, lse = (torch.cat(part).view(*q.shape[:2], *part[0].shape[1:]) for part in zip(*parts, strict=True))
        return (out, lse) if return_lse else out

    return whole


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """The results o and lse of some heads."""
    scores = softmax(scores_of(q, k, causal, bias))
    return scores.p @ v, scores.lse

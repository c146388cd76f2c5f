"""Untrusted side: runs the backward of a call: what the check `gradient` asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class GradientError(Exception):
    """The result of a call can't be differentiated."""


def require(arguments: Sequence[Any], positions: Sequence[int]) -> list[torch.Tensor]:
    """Make the arguments at these positions leaves that require a gradient, and give them."""
    return [arguments[position].requires_grad_() for position in positions]


def gradients(result: Any, leaves: Sequence[torch.Tensor], upstream: Sequence[torch.Tensor]) -> Any:
    """The gradients of the leaves, for the upstream gradient of each result; None for a leaf that has none.

    Raises GradientError where the result is not what the upstream gradients belong to, or has no history.
    """
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != len(upstream) or not all(isinstance(each, torch.Tensor) for each in results):
        kinds = ", ".join(type(each).__name__ for each in results)
        raise GradientError(
            f"the result has no gradient: the call returned {kinds}, expected {len(upstream)} torch.Tensor"
        )
    for each, grad in zip(results, upstream, strict=True):
        if each.shape != grad.shape:
            raise GradientError(
                f"the result has no gradient: its shape is {list(each.shape)}, expected {list(grad.shape)}"
            )
        if not each.requires_grad:
            raise GradientError("the result has no gradient: it does not require grad, although the inputs do")
    found = torch.autograd.grad(results, leaves, upstream, allow_unused=True)
    return found if len(found) > 1 else found[0]

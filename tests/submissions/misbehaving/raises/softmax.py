"""Softmax that refuses every input."""

import torch


def softmax(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 2:
        raise ValueError(f"expected a vector, got {tuple(x.shape)}")
    return x

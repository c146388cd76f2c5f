"""Softmax with a colon missing."""

import torch


def softmax(x: torch.Tensor) -> torch.Tensor
    return x

"""Softmax over the last dimension."""

import torch


def softmax(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError("softmax: not started yet")

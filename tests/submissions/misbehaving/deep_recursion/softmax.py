"""Softmax by a recursion without an end."""

import torch


def row_max(x: torch.Tensor, start: int) -> torch.Tensor:
    return max(x[start % x.numel()], row_max(x, start + 1))


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([row_max(row, 0) for row in x])

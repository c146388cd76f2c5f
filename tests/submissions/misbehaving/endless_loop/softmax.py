"""Softmax that looks for its block size with a loop that stays at zero."""

import torch


def softmax(x: torch.Tensor) -> torch.Tensor:
    block = 0
    while block < x.shape[1]:
        block *= 2  # next power of two
    return torch.empty((x.shape[0], block), dtype=x.dtype, device=x.device)

"""Softmax that needs a package which is not there."""

import torch
from my_triton_helpers import row_kernel


def softmax(x: torch.Tensor) -> torch.Tensor:
    return row_kernel(x, torch.exp)

"""The formula of GeLU in PyTorch operations."""

import math

import torch


def gelu(x: torch.Tensor) -> torch.Tensor:
    xf = x.float()
    inner = math.sqrt(2 / math.pi) * (xf + 0.044715 * xf**3)
    return (0.5 * xf * (1 + torch.tanh(inner))).to(x.dtype)

"""Softmax that allocates a scratch buffer of 64 GB."""

import torch


def softmax(x: torch.Tensor) -> torch.Tensor:
    scratch = torch.zeros(64 * 2**30 // 4, dtype=torch.float32, device=x.device)
    scratch += 1.0
    return scratch[: x.numel()].view(x.shape).to(x.dtype)

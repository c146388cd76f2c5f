"""Softmax that reads memory at address 0."""

import ctypes

import torch


def softmax(x: torch.Tensor) -> torch.Tensor:
    first_bytes = ctypes.string_at(0)  # should have been x.data_ptr()
    return torch.full_like(x, len(first_bytes))

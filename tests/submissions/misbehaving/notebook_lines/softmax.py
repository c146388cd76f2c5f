"""Softmax exported from a notebook."""

!pip install -q triton

import torch
import triton
import triton.language as tl


def softmax(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError


%timeit softmax(torch.randn(64, 64))

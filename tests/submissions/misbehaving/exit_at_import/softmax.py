"""Softmax behind a check that leaves when there is no GPU."""

import sys

import torch
import triton

if not torch.cuda.is_available():
    print("no GPU, nothing to do")
    sys.exit(0)


def softmax(x: torch.Tensor) -> torch.Tensor:
    raise RuntimeError(f"not written yet, triton {triton.__version__}")

"""Softmax that kills its own process."""

import os
import signal

import torch


def softmax(x: torch.Tensor) -> torch.Tensor:
    os.kill(os.getpid(), signal.SIGKILL)
    return x

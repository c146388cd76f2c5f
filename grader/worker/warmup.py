"""Untrusted side: runs one small kernel in the zygote, so that what Triton and torch import or build on first use is
there before any fork.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from grader.worker import interpreter
from grader.worker.operators import OperatorLog


@triton.jit  # type: ignore[untyped-decorator] # Triton has no types
def _kernel(x_ptr: Any, y_ptr: Any, n: Any, BLOCK: tl.constexpr) -> None:  # noqa: N803
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    square = tl.reshape(tl.exp(x - tl.max(x, axis=0)), (16, 16))
    y = tl.dot(square, square) / tl.sum(x, axis=0)
    tl.store(y_ptr + offsets, tl.reshape(y, (BLOCK,)), mask=offsets < n)


def warm_up() -> None:
    """Launch the kernel once, as a call of a submission would."""
    x = torch.full((250,), 1.0)
    y = torch.empty_like(x)
    with interpreter.record(interpreter.Options()), OperatorLog():
        _kernel[(1,)](x, y, x.numel(), BLOCK=256)
        y.clone()

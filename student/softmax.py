"""Exercise: softmax over the rows of a matrix."""

import torch
import triton
import triton.language as tl


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return exp(x[i, j] − m[i]) / Σₖ exp(x[i, k] − m[i]), where m[i] is the largest value of row i.

    x: (M, N), any strides, float32, float16 or bfloat16, entries may be −∞; it must not be changed. N may be larger
    than any block.
    Result: a new (M, N) tensor of the same dtype and device. Compute in float32.
    Mind: what a masked load fills in must not count in the maximum or the sum.
    """
    # TODO: write kernels with @triton.jit above, launch them here, and return the result.
    raise NotImplementedError("softmax is not written yet: student/softmax.py")

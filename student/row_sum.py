"""Exercise: the sums of the rows of a matrix."""

import torch
import triton
import triton.language as tl


def row_sum(x: torch.Tensor) -> torch.Tensor:
    """Return Σₖ x[i, k] for each row i.

    x: (M, N), any strides, float32, float16 or bfloat16; it must not be changed. N may be larger than any block.
    Result: a new (M,) tensor of the same dtype and device. Accumulate in float32.
    """
    # TODO: write kernels with @triton.jit above, launch them here, and return the result.
    raise NotImplementedError("row_sum is not written yet: student/row_sum.py")
